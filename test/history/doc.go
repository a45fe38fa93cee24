// Package history records the changes in a cluster and checks afterwards that Pinfold's guarantees
// held at every moment.
//
// A [Recorder] watches pods, nodes, topologies, leases and namespaces and records every change.
// [Check] processes the changes in the order of their resourceVersions and reports each [Violation]
// of a [Rule]. [Write] and [Read] store a history as JSON lines, so that a failed run can be
// examined later:
//
//	PINFOLD_TEST_HISTORY=FILE go test ./test/history -run TestReplay -v
//
// # Order and gaps
//
// All resources are in one etcd, so their resourceVersions are revisions of one store and order the
// changes of all resources. A recorder that loses its position (because the API server restarted,
// or history was compacted) lists the objects again and records a [Gap]. Within a gap of pods, the
// time at which a deleted pod was removed is unknown, so pods are compared only at the end of the
// gap. Within a gap of nodes or topologies, sums are not checked.
//
// # Pods that are checked
//
// The rules constrain the scheduler. So they compare only pods that the scheduler placed: pods that
// were first observed without a node, and whose allocation appeared in the same change as the node.
// A pod that was created with a node, or whose allocation was edited later, bypassed the scheduler,
// and its claim does not violate a rule. Editing an allocation is a violation by itself, except in
// namespaces that the admission policy does not cover.
//
// What an agent has given belongs to its pod from the revision at which the agent has published it,
// however the pod was bound, and while the pod asks. While an agent allocates, no allocation counts
// on its node. When the scheduler allocates again, earlier allocations of CPUs that were given to
// others meanwhile do not count. On a node whose agent has allocated, sums of requests are not
// checked: there they are the concern of all schedulers and of the kubelet.
//
// The checker parses allocations with package kube/api, as all of Pinfold does. It computes
// overlaps and sums independently, CPU by CPU.
package history
