// Package history records what happens in a cluster and checks afterwards that Pinfold's
// promises held at every moment of it.
//
// A [Recorder] watches pods, nodes, topologies, leases and namespaces and writes down
// every change. [Check] goes through the changes in the order of their resourceVersions
// and reports each [Violation] of a [Rule]. [Write] and [Read] keep a history as JSON
// lines, so that a failed run can be looked at later:
//
//	PINFOLD_TEST_HISTORY=FILE go test ./test/history -run TestReplay -v
//
// # What the checker may conclude
//
// All resources are kept in one etcd, so their resourceVersions are revisions of one
// store and order the changes of all resources. A recorder that loses its place (the API
// server was restarted, or history was compacted away) lists the objects anew and writes
// down a [Gap]. Inside a gap of pods it is not known when a pod that is gone went, so no two
// pods are compared there; they are compared at its end. Inside one of nodes or topologies
// no sums are made.
//
// # Who decided
//
// The rules bind the scheduler. They therefore compare only pods that the scheduler
// placed: those that were seen without a node first, and whose allocation came in the
// same change as the node. A pod that was created with a node, or whose allocation was
// edited later, came in beside the scheduler and breaks no rule by what it claims.
// Editing an allocation is a violation by itself, except in namespaces that the admission
// policy does not cover.
//
// The checker reads allocations as all of Pinfold does, with package kube/api. Who
// overlaps and what sums up to too much it finds out by itself, CPU by CPU.
package history
