// Package cgroup finds cgroups, and reads and writes their CPU settings (cpuset, quota, period,
// burst, weight and idle). It supports cgroup version 1 (one hierarchy per controller) and version
// 2 (one hierarchy) behind one interface; [Open] detects from the mounts which hierarchy has which
// controller. Package cgroupstat reads statistics; package cgrouptree makes groups, and lists and
// ends their processes.
//
//	fs, err := cgroup.Open("/")
//	settings, err := fs.Read(group)
//	outcome := fs.Apply(map[string]cgroup.Wanted{group: {Quota: &quota}})
//
// # Writing
//
// [FS.Apply] changes many groups in three steps. The second step, [Plan], is a pure function.
//
//  1. Read the present settings, only the files that matter.
//  2. Plan: compare wanted and present settings, and return the ordered list of writes.
//  3. Write, and read every file back.
//
// A value that is already present is never written, because each write of quota, period or burst
// refills the group's bucket of CPU time and forgives its debt, even if the value does not change.
//
// # Order
//
// The kernel rejects some intermediate states between two valid states. The order of writes avoids
// them.
//
//   - Cpuset. Version 1 requires each group's CPUs to be a subset of its parent's. First, groups
//     that only give up CPUs are narrowed, children before parents, so that CPUs are free before
//     other groups take them. Then groups are widened, parents before children; a group that loses
//     some CPUs and gains others keeps both as long as a child still needs the old ones. Then these
//     are narrowed, children first.
//   - Bandwidth. Version 1 requires quota/period of each limited group to be at most that of its
//     nearest limited ancestor. Groups whose ratio rises or does not change go first, parents
//     before children. The others follow, children before parents.
//   - Within one group, burst must not exceed quota: a lower burst is written before the quota, a
//     higher one after it. Version 1 has two files for quota and period. If both change, the order
//     with a valid intermediate state is chosen; if there is none, the quota is removed for the
//     duration of one write.
//   - Idle groups have no weight of their own: idle is cleared before the weight is written, and no
//     weight is written to a group that is to be idle.
//
// Version 2 accepts any order of groups. It gets the same order, so that no group's effective CPUs
// leave the union of old and new in between. (A group without a CPU list of its own uses its
// parent's, and so does one whose CPUs are disjoint from the parent's.)
//
// On kernels from 5.14 to 6.9, rewriting cpu.max divided the burst by 1000 (fixed in 49217ea147df).
// After such a write the burst is read, and written again if it differs.
//
// # Partitions
//
// A group of version 2 that is a partition has its CPUs for itself: no other group of the machine
// runs on them. Since Linux 6.7 this is possible below members (groups that are not partitions), if
// all of these have the CPUs as exclusive ones. So [Plan] first ends the partitions that change and
// takes exclusive CPUs away, children before parents; then it changes CPUs; then it gives exclusive
// CPUs, parents before children, and makes partitions. The kernel accepts the write also if the
// partition is not valid, and says why in the file: a [PartitionError].
//
// # Errors
//
// A group may disappear at any moment ([ErrGone]). That does not affect other groups, nor does a
// write that the kernel rejects ([WriteError]). A [HierarchyError] reports a controller whose
// hierarchy is missing or read-only, or that hierarchies of both versions claim.
package cgroup
