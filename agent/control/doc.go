// Package control decides what the agent of a node does. It is a state machine without I/O, in the form
// of raft's: the caller passes in what it learns, does what is [Ready], and reports back.
//
//	c.Step(control.Event{Machine: m, Pods: pods, Groups: &view}) // in any order, at any time
//	for {
//		ready := c.Ready(now)
//		// Read ready.Read, save ready.Save, or execute ready.Writes.
//		status := c.Advance(ready, result) // the end, if these were writes
//	}
//
// The [Status] says everything else that follows. Every tenth of a second the caller reports what it
// observes about raised quotas and batch pods, as status.Raises and status.Batch name it:
//
//	done, status := c.Tick(tick)
//	if done.Write: the same as above
//
// # Controllers
//
//	   pods: API server,      groups: settings of       machine, kubelet,
//	   kubelet, runtime       cgroups, whose they are   load of CPUs
//	             |                     |                       |
//	             +----------+----------+-----------------------+
//	                        v
//	 ready.go    Prepare: CPUs of pods that ask (allocate) -> Ready.Save; annotations that have
//	             changed (quota) -> Ready.Read
//	                        v
//	 plan.go     Input of package nodeplan: what is saved of the former (allocate), annotations in
//	             force and raised quotas (quota), core sets (cpus), mechanisms and budget (batch)
//	                        v
//	 groups/     groups.Round: pods, cgroups and the plan
//	                        |
//	       +----------------+-----------------+
//	       v                v                 v
//	     cpus             quota             batch     <- Tick (tick.go) asks quota and batch
//	cpusets, their   quota, period,    cpu.idle, bvt,    between rounds, with the last Round
//	order, core      burst; raises;    quota of the
//	sets, partitions annotations;      tier of batch
//	       |         other writers     pods
//	       +----------------+-----------------+
//	                        v
//	 decide.go     groups.Writes: one Decision, less what no pod needs (stake.go) -> Ready.Writes
//	                        v
//	 execute.go     Execute, then Advance: the controllers get the outcome
//	                        v
//	 status.go      Status, with the answer to the runtime and the Report of notice.go
//
// The controllers have their own state, read the Round, and neither import each other nor write what
// another one remembers. What they want of a cgroup meets in [groups.Writes] alone, and what they have to
// say in [groups.Notices].
//
// # What is enforced
//
// Package nodeplan computes the settings of each tier (QoS class), pod and container. Existing
// cgroups are matched to containers by container id, which comes from pod statuses and, earlier,
// from the runtime. A pod that the API server has no longer keeps its limits while it runs. Cgroups
// of unknown containers (sandboxes, pods that the API server did not have since the agent started)
// are confined to the shared CPUs, unless they run on CPUs that an earlier agent has allocated to
// their pod: the list may be old. Their bandwidth is not changed.
//
// # Holding
//
// While required input is missing, any change could take CPUs from a running container. So nothing
// is changed until the machine and the cgroups have been read, the pods have been listed since the
// start, and the kubelet's configuration is known, at least that of an earlier agent. If a mirror pod
// asks for CPUs, the kubelet has been asked whose it is.
// The settings of an earlier agent remain in force meanwhile.
//
// # Giving back
//
// While the plan is what the kubelet would set, the decision gives back what was written, and then is
// empty (stake.go). The same for an agent that observes, whose plan is carried out on a copy of the
// settings (pending.go): nothing but Decision.Pending follows from it.
//
// # Foreign writes
//
// The agent remembers the settings of each cgroup after a decision. A setting that differs in the
// next observation was changed by another writer. It is reported if the plan changes it back, or
// newly leaves it because of [OwnerOther]. Changes made by the kernel itself (version 1 removes
// offline CPUs from every cgroup) are not foreign writes.
package control
