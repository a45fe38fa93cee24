// Package api holds the words that users write on pods, and the one that the
// scheduler writes back: what they are called, what they may say, what they mean
// together, and what the user is told when they make no sense.
//
// # Words
//
//	annotation (label)            also                              values
//	pinfold.dev/cpuset-scheduler  cpuset-scheduler                  "true", "false"
//	pinfold.dev/cpu-policy        cpu-policy                        static, static-burst, none
//	pinfold.dev/full-cores                                          preferred, required
//	pinfold.dev/qos (label)       koordinator.sh/qosClass,          LS, BE; the others also LSE, LSR, SYSTEM
//	                              alibabacloud.com/qosClass
//	pinfold.dev/cpu-burst         koordinator.sh/cpuBurst,          JSON, see [BurstCeiling]
//	                              alibabacloud.com/cpuBurst
//	pinfold.dev/cpu-period                                          1ms to 1s
//	pinfold.dev/cpu-allocation                                      JSON, see [Allocation]; the scheduler's
//
// A word that stands under several keys must mean the same under each.
//
// # Who gets CPUs
//
// A pod asks with cpuset-scheduler "true" and any policy but none. Each of its
// containers with a whole number n of CPUs as limits.cpu gets n CPUs (static), or
// is confined to NUMA nodes with room for n (static-burst), whatever it requests.
// All other containers live in the shared CPUs. Only limits of containers count: a
// pod-level limit gives nobody CPUs of their own, and one below what the
// containers are given together is refused.
//
// A pod lives in phases: each ordinary init container runs alone but for the
// restartable init containers (sidecars) before it; then sidecars and main
// containers run together. The pod is given the largest need of any phase, and
// ordinary init containers run on CPUs out of these.
//
// # What the books count
//
// All that is not on a static container's own CPUs requests CPU time of the shared
// ones: the containers without CPUs of their own in the phase where they request
// most, pod overhead, and what a pod-level request leaves over when the static
// containers that run for long are served. Together with the requests of the static
// and static-burst containers this is never less than what kube-scheduler counts.
//
// # Contradictions
//
// What cannot be meant is refused, with a message that names the words: a pod with
// qos BE that asks for CPUs; a limit of the pod below those of its containers. What
// merely has no effect is a warning: cpu-policy or full-cores on a pod that does
// not ask; full-cores required with static-burst; cpu-burst or cpu-period where no
// container and no pod has a CPU limit. On static containers, which have no quota, bursts
// and periods have nothing to act on; that is normal and not warned of.
//
// # After binding
//
// The decision stands as it was written: on a bound pod the allocation alone counts,
// as long as the pod still asks, so that later edits of the other words neither
// move nor take CPUs. Taking cpuset-scheduler away, or the policy none, gives the
// CPUs back. An allocation on a pod without a node is ignored. One that cannot be
// believed gives the pod nothing but the shared CPUs, and an error that says why.
package api
