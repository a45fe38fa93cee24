// Package api defines the annotations and labels by which users request CPUs for pods, and the
// allocations with which the agents of nodes answer. It parses and validates them and produces the
// messages for users.
//
//	intent, err := api.Parse(pod)                             // what the pod asks for
//	claim, allocation, err := allocations.Claim(pod, machine) // the pod's entry in the node's ledger.Books
//
// # Annotations and labels
//
//	annotation (label)            aliases                           values
//	pinfold.dev/cpuset-scheduler  cpuset-scheduler                  "true", "false"
//	pinfold.dev/cpu-policy        cpu-policy                        static, static-burst, none
//	pinfold.dev/full-cores                                          preferred, required
//	pinfold.dev/move                                                "true", "false"
//	pinfold.dev/qos (label)       koordinator.sh/qosClass,          LS, BE; the others also LSE, LSR, SYSTEM
//	                              alibabacloud.com/qosClass
//	pinfold.dev/cpu-burst         koordinator.sh/cpuBurst,          JSON, see [BurstCeiling]
//	                              alibabacloud.com/cpuBurst
//	pinfold.dev/cpu-period                                          1ms to 1s
//
// A setting that is given under several keys must have the same meaning under each.
//
// # Which containers get CPUs
//
// A pod asks for CPUs with cpuset-scheduler "true" and any policy except none. Each of its
// containers whose limits.cpu is a whole number n gets n CPUs (static), or is confined to NUMA
// nodes with room for n (static-burst), regardless of its request. All other containers run in the
// shared CPUs. Only container limits count: a pod-level limit gives no container exclusive CPUs,
// and a pod-level limit below the sum of what the containers get is rejected.
//
// A pod runs in phases. Each ordinary init container runs with only the restartable init containers
// (sidecars) before it. Then sidecars and main containers run together. The pod gets the largest
// need of any phase, and ordinary init containers use CPUs out of these.
//
// # Which requests are counted
//
// The requests of static and static-burst containers are counted per container. The rest of the
// pod requests CPU time of the shared CPUs: what the other containers request in the phase in which
// they request most, plus the pod overhead. With a pod-level request, it is at least what the
// long-running static and static-burst containers leave of that request. The sum is never less than
// what kube-scheduler counts.
//
// # Contradictions
//
// Contradictory settings are rejected with a message that names them. A pod that asks for CPUs must
// not have qos BE, needs a container with a whole limits.cpu, and must not have a pod-level limit
// below what its containers get.
//
// Settings without effect produce a warning: cpu-policy or full-cores on a pod that does not ask
// for CPUs; full-cores required with static-burst; cpu-burst or cpu-period where neither a
// container nor the pod has a CPU limit. Burst and period also have no effect on static containers,
// which have no quota. That is normal and produces no warning.
//
// # After allocation
//
// Once a pod has CPUs, they stay its own while it asks for them. Removing cpuset-scheduler, or setting
// the policy none, releases them.
package api
