// Package scheduler is a kube-scheduler plugin that chooses the node for pods that ask for CPUs of their
// own, by the quality of the CPUs that they will get there, and keeps all other pods off nodes whose
// CPUs are promised. The CPUs themselves are allocated by the agent of the node. [New] is the plugin's
// factory, under the [Name] Pinfold; package command builds the complete scheduler. There is one file
// per extension point. Packages below it do the rest: agents keeps what the agents of nodes report,
// waiting returns refused pods to the queue, and evict evicts batch pods.
//
// # Books
//
// The plugin stores no allocations. On each change it derives the state of a node from what the node's
// agent has published and the scheduler's own list of the pods on it (NodeInfo). Each pod adds a claim
// to the node's books (package ledger):
//
//   - A pod to which the agent has allocated CPUs claims those.
//   - A pod that asks and is bound, or assumed to be, claims what the agent would allocate now: a
//     prediction, in the order of NodeInfo, which is about that in which pods came to the node.
//   - A nominated pod (one that waits for its victims to end) claims the same after all others or, if
//     it does not fit yet, the amount it will take.
//   - Every pod claims what it requests of the shared CPUs.
//
// A wrong prediction allocates no CPU to two pods, because it allocates nothing: the agent does. It can
// leave a pod without CPUs of its own, or with worse ones.
//
// While a node's topology is missing or unusable, sums replace the books: the exclusive CPUs that pods
// ask for and all requests must fit in the node's allocatable CPUs.
//
// The books therefore cannot diverge from the cluster. A restart needs no recovery, a pod that has
// ended leaves the books together with NodeInfo, and pods on a node with unknown topology are
// booked when the topology becomes known.
//
// # Caching
//
// A NodeInfo gets a new generation with every change of its pods or node. A generation is never
// used again, not even for another node. Generation and topology address together identify the
// state of a node. A state is cached until one of the two changes, with the answers it has given. It
// stays when the agent publishes what was predicted.
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
