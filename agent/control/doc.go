// Package control decides what the agent of a node does. It is a state machine without I/O: the
// caller passes in what it observes (machine, kubelet configuration, pods, usage, runtime events,
// cgroup settings) and gets a [Decision], which it carries out and reports back, and a [Status],
// which says everything else that follows.
//
//	c.SetMachine(...), c.SetPods(...), ...   // inputs, in any order, at any time
//	c.Observe(view)                          // the present cgroup settings
//	decision := c.Decide(now)
//	status := c.Applied(decision.Execute(kernel))
//
// # What is enforced
//
// Package nodeplan computes the settings of each tier (QoS class), pod and container. Existing
// cgroups are matched to containers by container id, which comes from pod statuses and, earlier,
// from the runtime. A pod that the API server has no longer keeps its limits while it runs. Cgroups
// of unknown containers (sandboxes, pods that the API server did not have since the agent started)
// are confined to the shared CPUs; their bandwidth is not changed.
//
// # Order
//
// Partitions that change are ended. Tiers and pods are widened, then containers move in the order
// of [nodeplan.Steps], then pods are narrowed, then bandwidth is written, then partitions are made.
// A container that could not be moved keeps its CPUs, and so does its pod. Those CPUs are not given
// to another container in the same round if either side needs them exclusively.
//
// A pod's cgroup has the shared CPUs and the CPUs of its containers, and no others. Groups that the
// runtime creates in it without asking (sandboxes always, containers if the agent does not answer
// in time) inherit the CPUs of the pod's cgroup.
//
// # Partitions
//
// With [Config.Partition] the cgroups of containers with exclusive CPUs are cpuset partitions, and
// the groups above have these CPUs as exclusive ones. Partitions that change are ended before
// anything else, and made after everything else. A container whose partition is not valid is a
// member again in the same round, and is tried again after a growing pause. Without that option,
// partitions that are found are ended.
//
// # Quota, period and burst
//
// Quota, period and burst follow the plan, with three exceptions:
//
//   - While the kubelet may be changing the limit of a pod, the API does not yet show which of the
//     two limits is in force, so the pod's bandwidth is not changed. Only what would make the kernel
//     reject the new quota is undone: a burst above it, and a raise. A change of anything else in
//     the spec is no such change, and neither is one that the kubelet has deferred or refused: the
//     limit is then the one in the pod's status. A quota that was removed is always restored; of
//     two limits the smaller one counts.
//   - With [OwnerOther], a cgroup in which another writer changed one of the three belongs to that
//     writer until the cgroup ends or its limit changes. The same applies to values found at the
//     start that neither the kubelet nor an agent would have set.
//   - A quota may be raised temporarily, as package burst decides.
//
// For raises, the caller reports what it observes about every tenth of a second, as status.Raises
// and status.Batch name it:
//
//	done := c.Tick(tick)
//	if done.Write: Decide, Execute, Applied, as in a round
//
// A raise is part of every later plan, so that no round undoes it and the pod's cgroup has room for
// it. All writes to a container's bandwidth, including those of other writers, are counted and
// charged at the next tick.
//
// # Bandwidth annotations
//
// Bandwidth settings in annotations and labels are limited by the configured ceilings. The plan
// adopts a change when the write budgets of the pod's cgroups ([burst.Budget]) can pay for the
// writes, because each write refills the kernel's bucket. Until then the values adopted before
// remain in force. The caller reports the usage that this depends on:
//
//	for each of c.Waiting(): c.SetGroupUsage(path, usage)
//	decision := c.Decide(now)
//
// At the start, and after a resize, the settings found in the cgroups count as adopted.
//
// # Holding
//
// While required input is missing, any change could take CPUs from a running container. So nothing
// is changed until the pods have been listed and the kubelet has been queried once since the start.
// The settings of an earlier agent remain in force meanwhile.
//
// # Core sets after a restart
//
// A core set is the CPUs that a static-burst container uses; see package nodeplan. The core sets in
// force are read from the containers' cgroups. No file stores them.
//
// # Foreign writes
//
// The agent remembers the settings of each cgroup after a round. A setting that differs in the next
// observation was changed by another writer. It is reported if the plan changes it back, or newly
// leaves it because of [OwnerOther]. Changes made by the kernel itself (version 1 removes offline
// CPUs from every cgroup) are not foreign writes.
package control
