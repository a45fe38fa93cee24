// Package api defines the annotations and labels by which users request CPUs for pods, and the
// allocations with which the agents of nodes answer. It parses and validates them and produces the
// messages for users.
//
//	intent, err := api.Parse(pod)                             // what the pod asks for
//	claim, allocation, err := allocations.Claim(pod, machine) // the pod's entry in the node's ledger.Books
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
// A pod asks for CPUs with cpuset-scheduler "true" and any policy except none. Each of its
// containers whose limits.cpu is a whole number n gets n CPUs (static), or is confined to NUMA
// nodes with room for n (static-burst), regardless of its request. All other containers run in the
// shared CPUs. Once a pod has CPUs, they stay its own while it asks for them.
//
// Only container limits count: a pod-level limit gives no container exclusive CPUs, and a pod-level
// limit below the sum of what the containers get is rejected.
//
// A pod runs in phases. Each ordinary init container runs with only the restartable init containers
// (sidecars) before it. Then sidecars and main containers run together. The pod gets the largest
// need of any phase, and ordinary init containers use CPUs out of these.
//
// Contradictory settings are rejected with a message that names them, such as keys with different
// meanings, or a pod that asks for CPUs with qos BE or without a whole limits.cpu. Settings without
// effect produce a warning: cpu-policy or full-cores on a pod that does not ask for CPUs;
// full-cores required with static-burst; cpu-burst or cpu-period where neither a container nor the
// pod has a CPU limit. Burst and period also have no effect on static containers, which have no
// quota. That is normal and produces no warning.
package api
