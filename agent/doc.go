// Package agent is the node daemon. It allocates the CPUs of one node to pods, enforces that in the
// cgroups, and publishes it together with the node's state. [Run] runs the agent; [Cleanup] undoes its
// settings.
//
//	err := agent.Run(ctx, agent.Options{...})
//
// In each round the agent observes the machine and the cgroups, and takes the pods that it watches.
// Other tasks read the Node, the kubelet's configuration and the CPU load, at other intervals.
// Package control decides, and the agent writes the settings that differ. It publishes the
// node's topology object, a node condition, events and metrics. Rounds run when something has
// changed, at a bounded rate, and periodically. If NRI is available, the container runtime also
// asks the agent before it creates a container.
//
// While no pod needs settings, and in the mode "observe", decisions are empty, after they have given
// back what was written. A file in the run directory tells the next agent whether that is done.
//
// The agent fails static: however it ends, its settings stay in force. The exception is a
// temporarily raised quota, which the agent restores, or, after a kill, the next agent. On start it
// changes only what differs. When the API server, the kubelet or the runtime is unreachable, it
// continues with the last known state.
//
// # The way of data
//
//	pods of the API server       run.go: watchPods asks for a round, which takes them
//	Node, kubelet                publish.go passes on what it reads
//	machine, cgroups             rounds.go: observe
//	load of CPUs, usage          load.go for core sets; tick.go for raises and batch pods
//	container runtime            runtime.go: Create, Start, Stopped, ...
//	new cgroups of pods          newpods.go
//	      |
//	      |  inputs of control.Control, a state machine without I/O; engine.mu is held
//	      v
//	engine.go: decide
//	      |  Ready.Save   --> the CPUs of pods that ask: rundir.go saves them first, publish.go publishes them
//	      |  Ready.Writes --> Decision, writes in order --> systemd.go: kernel.Apply writes the cgroups.
//	      |                                                 The task units.run tells systemd afterwards
//	      |  Advance <------- Result <----------------------+
//	      v
//	Status
//	      |  passed to    meters, delays (what to sample and trace), reports.go (log, events,
//	      |               the node's condition)
//	      |  taken by     the next tick (what to read), metrics.go, publish.go (capacity for batch
//	      |               pods), package batch (cookies; the scheduler for batch pods)
//
// The engine owns the state machine and its lock; whatever decides calls its method decide. The
// task "weight" also writes: the CPU weight of the agent's own pod, which is not the state
// machine's. run.go starts all tasks, and says which lock each holds.
//
// To follow the start of a container, read newpods.go, runtime.go and decide in engine.go, then
// ready.go, decide.go, execute.go and status.go of package control, then Apply in systemd.go and in apply.go
// of package cgroup.
package agent
