// Package nodeplan computes the cgroup settings of every tier, pod and container of one node.
//
//	desired := nodeplan.Plan(state)          // what Pinfold enforces
//	original := nodeplan.Kubelet(state)      // what the kubelet would set
//	steps := nodeplan.Steps(from, to, shared) // a safe order for moving containers
//
// [Plan] maps a [State] (machine, pods, usage) to a [Desired] (cpuset, quota, period, burst and
// idle of each cgroup). [Kubelet] is used when all settings are given back. Both are pure
// functions: the same state gives the same settings.
//
// # Where containers run
//
// The books of package ledger divide the online CPUs into exclusive and shared.
//
//   - A static container has exactly its CPUs and no quota, which would throttle it needlessly. If
//     some of its CPUs are offline, it has the rest. If all are offline, it runs in the shared CPUs
//     with its quota, and its CPUs remain its own.
//   - A static-burst container has a core set, chosen as described below, and its limit as quota.
//   - An ordinary init container without a claim, in a pod that has CPUs, runs on those CPUs of its
//     pod that no container running at the same time has.
//   - An ephemeral container, in a pod that has CPUs, runs on all of them.
//   - Everything else, including pods that ask and have no CPUs of their own, has the shared CPUs and the quota set
//     by the kubelet. Batch pods (BE) have what State.Batch names: cpu.idle puts them behind all
//     others of their tier, cpu.bvt_warp_ns behind all others on kernels with Group Identity.
//     State.BatchBudget bounds those of the tier BestEffort together by a quota of that.
//
// If static pods hold every CPU while another container needs shared ones, the static pod with the
// highest rank (ledger.Claim) becomes a shared pod: it stays on its CPUs, which are then shared. So
// no cpuset is ever empty, and no CPU is ever exclusive to two pods.
//
// A quota removed from a container must be removed from its pod too, or the pod would throttle it.
// The other containers of the pod keep their own limits. A container without a limit, in a pod with
// a pod-level limit, gets the remainder of the pod's limit; see [Plan]. Invariant: a quota that the
// kubelet would set is missing only where everything that it would bound has exclusive CPUs, or a
// quota of its own that keeps the pod's limit. The period of such a pod is at most the kubelet's,
// because each start of a container fills a bucket that the pod's group does not bound.
//
// # Burst
//
// The pod's policy, or else the node's, gives a container with a quota a kernel burst of
// BurstPercent of its quota. It is at most the whole quota, which is the kernel's maximum. The
// pod's burst is the largest sum of the bursts of containers that run at the same time, at most the
// pod's quota. With less, the pod would throttle containers that may burst. Batch pods have no
// burst. Static containers have no quota and hence no burst.
//
// The quota of a container may be raised temporarily, as far as the policy allows (package burst
// decides when; see Container.Raised). The pod's quota is raised by the same amount; bursts do not
// change. Only the quota of a container with a limit of its own can be raised, and only if the
// pod's limit covers the limits of all its containers. Otherwise another container may have used
// the time that this one seems to have saved.
//
// # Core sets
//
// A static-burst container of limit n may use the shared CPUs of its NUMA nodes, its region. It
// needs min(n, size of the region) of them, its core set. All core sets of a node are planned
// together, starting from the previous sets, in two stages.
//
// The first stage establishes what is required. CPUs that left a region leave the set. Sets are
// disjoint while there is room. This is a bipartite matching: each container wants as many CPUs of
// its region as it needs, and no CPU belongs to two containers. The previous sets are matched
// first. Augmenting paths then fill what is missing; a shortest path moves as few other containers
// as possible. The next CPU is chosen in this order of preference:
//
//  1. a CPU that the container had before;
//  2. a CPU of a core that the container already uses in part;
//  3. a CPU of a core that it can have whole;
//  4. a CPU of the idlest core;
//  5. a CPU in no set, rather than one that a container has beyond its need;
//  6. the lowest CPU.
//
// A maximum matching leaves a container short only when disjoint sets are impossible. Such a
// container shares the CPUs that the fewest others have. If the previous sets are equally good,
// nothing moves. This stage reacts to every input at once, and load alone never triggers it.
//
// The second stage improves the sets, once per usage sample (Usage.Sequence) and by at most one core
// per container (improve.go). It gives back a busy core beyond need, exchanges a core for one in no
// set that is idler by a margin, or extends the set by an idle core in no set. A core
// whose load is between the thresholds for idle and busy is neither added nor given back. The usage
// of the static-burst containers themselves is subtracted from a CPU's load. So sets do not
// oscillate, they move at a bounded rate, and planning again from the result with the same sample
// changes nothing.
//
// Static-burst init containers do not run at the same time as the main containers of their pod.
// They take the CPUs of those first, then the CPUs that the fewest others have, and move no other
// container.
//
// # Order of writes
//
// A container should not run on another pod's exclusive CPUs while settings change from one plan to
// the next. [Steps] orders the cpuset writes of containers: first those that give up CPUs, then
// those that receive them. A new container must get its CPUs only after the steps that free them.
// Package linux/cgroup orders the writes within one branch of the cgroup tree (parent and child,
// quota and burst).
package nodeplan
