// Package history records the changes in a cluster and checks afterwards that Pinfold's guarantees
// held at every moment.
//
// A [Recorder] watches pods, nodes and topologies and records every change.
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
// # What is checked
//
// What an agent has allocated belongs to its pod from the revision at which the agent has published it,
// however the pod was bound, and while the pod asks. Sums of requests are checked on nodes all of whose
// pods Pinfold's scheduler has bound and nobody has edited: elsewhere they are the concern of all
// schedulers and of the kubelet.
//
// The checker parses allocations with package kube/api, as all of Pinfold does. It computes
// overlaps and sums independently, CPU by CPU.
package history
