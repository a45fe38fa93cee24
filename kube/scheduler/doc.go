// Package scheduler is a kube-scheduler plugin that allocates specific CPUs of a node to pods that
// ask for them, and keeps all other pods off those CPUs. [NewFactory] returns the plugin's factory
// under the [Name] Pinfold; package command builds the complete scheduler. There is one file per
// extension point. Packages below it do the rest: agents keeps what the agents of nodes report,
// signing signs allocations, waiting returns refused pods to the queue, leader tells whether this
// replica may decide and bind, and evict evicts batch pods.
//
// # Books
//
// The plugin stores no allocations of its own. On each change it derives the state of a node from
// the node's topology and the scheduler's own list of the pods on it (NodeInfo). Each pod adds a
// claim to the node's books (package ledger):
//
//   - A bound pod claims what its annotation says, which Bind wrote together with the node name.
//   - A pod that the scheduler assumes to be bound claims what its [reservation] says, made by
//     Reserve, because the annotation has not come back yet. An allocation annotation on such a pod
//     was not written by this plugin and is ignored.
//   - A nominated pod (one that waits for its victims to end) claims a virtual placement after all
//     others or, if it does not fit yet, the amount it will take.
//   - Every pod claims what it requests of the shared CPUs.
//
// While a node's topology is missing or unusable, sums replace the books: the exclusive CPUs of
// bound pods and all requests must fit in the node's allocatable CPUs.
//
// The books therefore cannot diverge from the cluster. A restart needs no recovery, a pod that has
// ended leaves the books together with NodeInfo, and pods on a node with unknown topology are
// booked when the topology becomes known.
//
// # Caching
//
// A NodeInfo gets a new generation with every change of its pods or node. A generation is never
// used again, not even for another node. Generation and topology address together identify the
// state of a node. A state is cached until one of the two changes, with the answers it has given.
// For many equal pods, each pod costs one new state, that of the node that took the previous pod.
// States are not cached if they are derived from a NodeInfo with pods added or removed for a trial:
// for nominated pods and preemption, where it has a generation of its own, and for pod groups,
// where it keeps the old one.
//
// # Messages
//
// PreFilter rejects pods whose annotations cannot be satisfied as written, with the message of
// package api. Filter distinguishes what eviction can resolve (CPUs in use) from what it cannot (no
// topology, machine too small). The messages are in reasons.go.
package scheduler
