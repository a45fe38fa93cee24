// Package scheduler is a kube-scheduler plugin that gives pods which ask for it
// specific CPUs of a specific node, and keeps all other pods out of CPUs that are
// given away. There is one file per extension point.
//
// # Books without a second memory
//
// What a node has left is derived, every time it changes, from two things only: the
// node's topology and the scheduler's own list of the pods on it (NodeInfo). Each
// pod there contributes a claim to the node's books (package ledger):
//
//   - a bound pod by its annotation, which Bind has written with the node name;
//   - a pod that the scheduler assumes to be bound by its [reservation], made by
//     Reserve, because no annotation has come back yet. Whatever allocation such a
//     pod bears was not written by us and counts for nothing;
//   - a nominated pod (one that waits for its victims to end) by a virtual
//     placement after all others, or, where it does not fit yet, by the amount it
//     will take;
//   - and any of them by what it requests of the shared CPUs.
//
// While a node's topology is missing or cannot be used, sums stand for the books: the
// CPUs that bound pods have for themselves and everything that is requested must fit in
// what the node can allocate.
//
// So there is nothing that could drift from the cluster, a restart needs no
// recovery, a pod that has ended is gone from the books when it is gone from
// NodeInfo, and a pod whose node's topology is unknown is booked when it becomes
// known.
//
// NodeInfo has a generation, which changes with every pod or node change on it and
// never repeats. Together with the address of the topology it identifies the state
// of a node, so a state is kept until one of the two changes, with all answers it
// has given: of many pods alike, each costs one new state, of the node that took the
// one before. Copies of NodeInfo with pods added or taken away (nominated pods,
// preemption) have generations of their own; states made from them are not kept.
//
// # What a pod is told
//
// Words that cannot be served as written end in PreFilter with the message of
// package api. Filter tells apart what eviction can resolve (CPUs in use) and what
// it cannot (no topology, too small a machine). See reasons.go for the message.
package scheduler
