// Package nodeplan says what the kernel should be told about every tier, pod and
// container of one node: [Plan] maps a [State] (machine, pods, usage) to a
// [Desired] (cpuset, quota, period, burst, idle of each cgroup). [Kubelet] maps the
// same state to what the kubelet would set, for the day everything is given back.
// Both are pure functions: the same state gives the same settings.
//
// # Where containers live
//
// The books of package ledger divide the online CPUs into exclusive and shared.
//
//   - A static container has exactly its CPUs and no quota, which would throttle
//     it needlessly. Of CPUs that are offline it has the rest; with none online it
//     lives in the shared CPUs, with its quota, and its CPUs stay its own.
//   - A static-burst container has a core set, chosen as told below, and its limit
//     as quota.
//   - An ordinary init container without a claim, in a pod that has CPUs, runs on
//     CPUs of its pod that nobody who runs at the same time has.
//   - Everything else, pods that lose a conflict included, has the shared CPUs and
//     the quota the kubelet gave it; batch pods (BE) have none once they are idle,
//     behind all others, and their limit until then.
//
// Should static pods hold every CPU while somebody needs shared ones, the youngest
// static pod becomes a shared one: it stays on its CPUs, which are then shared. So
// no cpuset is ever empty, and still no CPU is enforced for two.
//
// Quota lifted from a container must be lifted from its pod, or the pod would
// throttle it. The others in the pod keep their own limits; one without a limit in
// a pod with a limit at pod level gets what that leaves, see [Plan].
//
// # Burst
//
// By its pod's policy, or else the node's, a container with a quota may save up what it
// did not use of it: its kernel burst is BurstPercent of its quota, at most all of it, which
// is what the kernel takes. The pod's burst is the sum of theirs in that phase of its life
// in which it is largest, at most the pod's quota: less would have the pod throttle
// containers that may burst. Batch pods have none. Static containers have no quota, and so
// no burst.
//
// The quota of a container may be raised for a while (package burst decides when, by
// Container.Raised), as far as the policy allows; the quota of its pod is raised by as
// much, and bursts stay. Only a container with a limit of its own may be, and only
// where the pod's limit has room for all limits of its containers: otherwise what one of them
// leaves is another's to use, and not saved up.
//
// # Core sets
//
// A static-burst container of limit n may use the shared CPUs of its NUMA nodes,
// its region, and needs min(n, size of the region) of them. The sets are planned
// together, from the sets of before, in two stages.
//
// First, what must be. CPUs that left a region leave the set. Sets shall be
// disjoint while there is room, which is a matching: each container wants as many
// CPUs of its region as it needs, and no CPU is two containers'.
// The sets of before are matched first, then augmenting paths fill what is
// missing: a shortest path moves as few others as possible. The next CPU taken is,
// in this order, one that the container had before, one of a core already begun, one
// of a core it can have whole, one of the idlest core, one in nobody's set rather
// than one that somebody has beyond need, the lowest. A maximum matching leaves
// somebody short only when there is no room for disjoint sets; then who is short
// shares the CPUs that fewest have. When the sets of before are as good already,
// nothing moves. This stage follows at once on what it is told, and load alone never
// triggers it.
//
// Then, what would be better, once per sample of usage (Usage.Sequence) and at most
// Tuning.Step cores per container: give back a busy core beyond need; exchange a core
// for one that nobody's set has and that is idler by Tuning.Margin; spread over a core
// that nobody's set has and that is idle. "Busy" and "idle" are apart, so that a core
// between the two stays as it is, and what the static-burst containers themselves use
// is taken off a CPU's load. So sets do not flap, move at a bounded rate, and planning
// again from the result with the same sample changes nothing.
//
// Static-burst init containers do not run beside the main containers of their pod.
// They take CPUs of those first, then the CPUs that fewest others have, and move nobody.
//
// # Order
//
// While settings change from one plan to the next, a CPU must not be enforced for
// two either. [Steps] orders the cpuset writes of containers: who gives up CPUs
// first, who receives them afterwards. The order of writes within one branch of the
// cgroup tree (parent and child, quota and burst) is the business of linux/cgroup.
// A container that is created must get its CPUs only after the steps that free
// them were taken.
package nodeplan
