// Package cgroup reads and writes the CPU settings of control groups: cpuset,
// quota, period, burst, weight and idle, and reads their statistics and threads.
// Version 1 (a hierarchy per controller) and version 2 (one hierarchy) stand
// behind one interface; [Open] finds out from the mounts which one holds what.
//
// # Writing
//
// A change of many groups has three steps. The first and the last do I/O, the
// middle one, [Plan], is a pure function.
//
//  1. Read what is there ([FS.Read]), only the files that matter.
//  2. Plan: wanted against present gives the ordered list of writes.
//  3. Write, and read every file back ([FS.Apply]).
//
// A value that is already there is never written: each write of quota, period or
// burst refills the group's pool and forgives its debt, also when nothing changes.
//
// # Order
//
// The kernel refuses some states on the way from one valid state to another, and
// the order avoids them.
//
//   - cpuset. Version 1 wants each group's CPUs within its parent's. First groups
//     that only give up CPUs are narrowed, children before parents, so that CPUs
//     are free before others take them. Then groups are widened, parents before
//     children; one that loses some CPUs and gains others takes both as long as a
//     child still needs the old ones. Then these are narrowed, children first.
//   - Bandwidth. Version 1 wants quota/period of each limited group at or below
//     that of its nearest limited ancestor. Groups whose ratio rises or stays go
//     first, parents before children; the others follow, children before parents.
//   - Within one group burst may not exceed quota: a lower burst is written before
//     the quota, a higher one after it. Version 1 has two files for quota and
//     period. When both change the order is chosen whose middle state is valid;
//     when neither is, the quota is lifted for the length of one write.
//   - Idle groups have no weight of their own: idle is cleared before the weight
//     is written, and a weight is not written to a group that is to be idle.
//
// Version 2 accepts any order of groups; it gets the same, so that no group's
// effective CPUs leave the union of old and new in between. (A group without a list
// of its own goes with its parent, and so does one whose CPUs are none of the
// parent's.)
//
// Rewriting cpu.max divided the burst by 1000 on kernels from 5.14 to 6.9
// (49217ea147df); after such a write the burst is looked at, and written again
// when it differs.
//
// # Making groups
//
// [FS.Home] finds where this process may make groups: below its own group, as far as
// version 2 allows that, which wants processes in leaves only. [FS.Within] is the
// control groups as seen from there; [FS.Make], [FS.Kill] and [FS.Remove] work on
// several hierarchies at once.
//
// # Faults
//
// A group may vanish at any moment: [ErrGone]. Other groups are not affected by
// that, nor by a write that the kernel refuses ([WriteError]). A hierarchy that is
// missing, read-only or mounted twice is a [HierarchyError].
package cgroup
