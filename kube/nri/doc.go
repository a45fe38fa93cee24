// Package nri connects a [Handler] to the container runtime, so that it can set CPUs, quota and
// period when containers are created, started, updated and stopped. It implements a plugin of the
// Node Resource Interface (github.com/containerd/nri) of containerd and CRI-O.
//
//	nri.Run(ctx, nri.Options{...}, handler)
//
// # Connection
//
// [Run] dials the runtime's socket, registers the plugin and serves the runtime's requests on that
// connection until it ends. Then it dials again, with jittered pauses that double from 100 ms to 2
// s, so that many nodes do not reconnect in step. A connection that lasted less than 2 s does not
// reset the pause to 100 ms, so a runtime that drops the plugin at once is not dialled in a loop.
// Each connection starts with a Synchronize of all pods and containers, so events missed in between
// are not lost.
//
// The package manages the connection itself, because the Start method of NRI's stub waits forever
// if the runtime dies between registration and configuration. It uses the stub to decode requests.
//
// # What the runtime accepts
//
// NRI carries cpuset, quota and period of containers, at creation and in updates. It has no fields
// for burst, idle and pod cgroups. "No quota" is sent as -1 in both cases: containerd 2.4 drops a
// quota of 0 from updates, and runc 1.5 then keeps the old quota. -1 becomes -1 in
// cpu.cfs_quota_us, "max" in cpu.max and infinity for systemd. A period is only sent together with
// a quota.
//
// In an update, containerd passes its whole record of the container to runc, including the cpuset,
// and so reverts direct writes to the cgroup. The kubelet's updates are therefore answered with the
// handler's settings, which replace those in the update. Other resources in the update, such as
// memory, are not changed.
//
// # Timeouts
//
// The runtime allows 2 s per request by default and then drops the plugin. A handler gets three
// quarters of the remaining time and is abandoned at seven eighths; the answer is then empty,
// without changes. The answer is also empty if a handler panics, and for requests that arrive while
// an abandoned call is still running. An error that a handler returns does fail the container's
// creation or start.
//
// # Other plugins
//
// If two plugins set the same field of a container, its creation fails, and neither plugin is
// notified. The package detects this indirectly: a container that got settings is stopped or
// created again without ever being started. Create then makes no changes at the next attempt, and
// the settings are written in the handler's Start, which runs before the container's first
// instruction.
//
// If a field has changed by then in a way that was not requested here, another plugin is proven,
// and Create makes no changes until the next connection. A container that already has CPUs at
// creation got them from an earlier plugin or from the kubelet's static CPU manager; it is not
// changed either. [Options].OnConflict is called in each case.
//
// NRI (0.12) accepts two plugins of the same name and index. If a runtime rejects that, the error
// says so.
package nri
