// Package scheduler is a kube-scheduler plugin that chooses the node for pods that ask for CPUs of
// their own, by the quality of the CPUs that they will get there, and keeps all other pods off
// nodes whose CPUs are promised. The CPUs themselves are allocated by the agent of the node. [New]
// is the plugin's factory, under the [Name] Pinfold; package command builds the complete scheduler.
// There is one file per extension point. Packages below it do the rest: agents keeps what the
// agents of nodes report, waiting returns refused pods to the queue, and evict evicts batch pods.
//
//	pod: question.go      NodeInfo: the pods on a node      agents: what its agent has published
//	     |                                  +-------------------------------+
//	     v                                  v
//	prefilter.go: can no node serve it?  state.go: the node's books (cached by generation)
//	     +------------------+---------------+
//	                        v
//	filter.go: does it fit?  score.go: how good are the CPUs?  reasons.go: messages
//	                        v
//	             kube-scheduler binds the pod
//
// The plugin stores no allocations. On each change it derives the state of a node from what the
// node's agent has published and the scheduler's own list of the pods on it (NodeInfo). Each pod
// adds a claim to the node's books (package ledger):
//
//   - A pod to which the agent has allocated CPUs claims those.
//   - A pod that asks and is bound, or assumed to be, claims what the agent would allocate now: a
//     prediction, in the order of NodeInfo, which is about that in which pods came to the node.
//   - A nominated pod (one that waits for its victims to end) claims the same after all others or, if
//     it does not fit yet, the amount it will take.
//   - Every pod claims what it requests of the shared CPUs.
//
// So the books cannot diverge from the cluster. A restart needs no recovery, a pod that has
// ended leaves the books together with NodeInfo, and pods on a node with unknown topology are
// booked when the topology becomes known.
//
// A wrong prediction allocates no CPU to two pods, because it allocates nothing: the agent does. It
// can leave a pod without CPUs of its own, or with worse ones.
//
// While a node's topology is missing or unusable, sums replace the books: the exclusive CPUs that
// pods ask for and all requests must fit in the node's allocatable CPUs.
package scheduler
