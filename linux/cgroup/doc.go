// Package cgroup finds cgroups, and reads and writes their CPU settings (cpuset, quota, period,
// burst, weight and idle). It supports cgroup version 2 (one hierarchy) and version 1 (one
// hierarchy per controller) behind one interface; [Open] detects from the mounts which hierarchy
// has which controller. Package cgroupstat reads statistics; package cgrouptree makes groups, and
// lists and ends their processes.
//
//	fs, err := cgroup.Open("/")
//	settings, err := fs.Read(group)
//	outcome := fs.Apply(map[string]cgroup.Wanted{group: {Quota: &quota}})
//
// [FS.Apply] changes many groups:
//
//	Wanted, by group
//	    v
//	settings.go   read the present settings, only the files that matter
//	    v
//	plan.go       Plan, a pure function: the ordered list of writes that differ
//	    v         (planbandwidth.go, partition.go)
//	apply.go      write, and read every file back
//	    v
//	Outcome: what was written, errors by group
//
// A value that is already present is never written, because each write of quota, period or burst
// refills the group's bucket of CPU time and forgives its debt, even if the value does not change.
//
// A group may disappear at any moment ([ErrGone]). That does not affect other groups, nor does a
// write that the kernel rejects ([WriteError]). A [HierarchyError] reports a controller whose
// hierarchy is missing or read-only, or that hierarchies of both versions claim.
package cgroup
