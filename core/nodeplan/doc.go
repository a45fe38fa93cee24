// Package nodeplan computes the cgroup settings of every tier, pod and container of one node.
//
//	desired := nodeplan.Plan(state)           // what Pinfold enforces
//	original := nodeplan.Kubelet(state)       // what the kubelet would set
//	steps := nodeplan.Steps(from, to, shared) // a safe order for moving containers
//
// [Plan] maps a [State] (machine, pods, usage) to a [Desired] (cpuset, quota, period, burst and
// idle of each cgroup). [Kubelet] is used when all settings are given back. Both are pure
// functions: the same state gives the same settings.
//
//	     State: machine, claims and limits of pods, load of CPUs, core sets at present
//	                              v
//	cpuplan.go      books: which CPUs are exclusive, which are shared
//	                              v
//	coresets.go     core sets: required CPUs (matching.go), then idler ones (improve.go)
//	                              v
//	cpuplan.go      CPUs, quota and period of each container and pod (bandwidth.go)
//	                              v
//	plan.go         batch pods behind all others, and bounded
//	                              v
//	burst.go        kernel bursts and raised quotas
//	                              v
//	     Desired: settings, findings (finding.go)
//
// Containers run here:
//
//   - A static container has exactly its CPUs and no quota, which would throttle it needlessly. If
//     some of its CPUs are offline, it has the rest. If all are offline, it runs in the shared CPUs
//     with its quota, and its CPUs remain its own.
//   - A static-burst container has a core set of the shared CPUs of its NUMA nodes, and its limit as
//     quota.
//   - An ordinary init container without a claim, in a pod that has CPUs, runs on those CPUs of its
//     pod that no container running at the same time has.
//   - An ephemeral container, in a pod that has CPUs, runs on all of them.
//   - Everything else, including pods that ask and have no CPUs of their own, has the shared CPUs
//     and the quota set by the kubelet.
package nodeplan
