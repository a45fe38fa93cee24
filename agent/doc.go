// Package agent is the node daemon. It enforces the scheduler's CPU decisions in the cgroups of one
// node and reports the node's state to the cluster. [Run] runs the agent; [Cleanup] undoes its
// settings.
//
//	err := agent.Run(ctx, agent.Options{...})
//
// In each round the agent observes the Node, its pods, the kubelet's configuration, the machine,
// the cgroups and the CPU load. Package control decides, and the agent writes the settings that
// differ. It publishes the node's topology object, a node condition, events and metrics. Rounds run
// when something has changed, at a bounded rate, and periodically. If NRI is available, the
// container runtime also asks the agent before it creates a container.
//
// The agent fails static: however it ends, its settings stay in force. The exception is a
// temporarily raised quota, which the agent restores, or, after a kill, the next agent. On start it
// changes only what differs. When the API server, the kubelet or the runtime is unreachable, it
// continues with the last known state.
//
// # The way of data
//
//	                  API server              kubelet         container runtime
//	                      |                      |                   |
//	            run.go: watchPods       publish.go: readKubelet      |  runtime.go: Create, Start, ...
//	                      v                      v                   v
//	rounds.go: cgroups,  +------------- engine.go: inputs --------------+   tick.go: tick, every 100 ms
//	machine, which     ->|  control.Control: a state machine, no I/O    |<- load.go: load of core sets
//	kernel.go reads      +---+--------------------------------------+---+   newpods.go: new cgroups
//	                         | Decide                       Applied |
//	                         v                                      v
//	                      Decision                               Status
//	                   writes in order                what to sample, show and publish
//	                         |                                      |
//	       systemd.go: kernel.Apply writes           +--------------+---------------+----------------+
//	       the cgroups, and the task units.run       v              v               v                v
//	       tells systemd afterwards               meter.go,     reports.go:     metrics.go      package batch:
//	                         |                    delays.go,    log, events,                    cookies, and a
//	                         +-- control.Result   next tick     publish.go:                     scheduler
//	                             to Applied                     condition, capacity
//
// The engine owns the state machine and its lock; whatever decides calls its method decide. A round
// observes everything. A tick, a request of the runtime and a new pod pass in what they know. What
// observes, measures and reports are values of their own, with their own locks. run.go starts all
// tasks, and says which lock each holds.
//
// To follow the start of a container, read runtime.go and decide in engine.go, then decide.go and
// execute.go of package control, then apply.go of package cgroup.
package agent
