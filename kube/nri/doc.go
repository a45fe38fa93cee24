// Package nri lets a [Handler] have its say when the container runtime creates,
// starts, updates and stops containers, by the Node Resource Interface
// (github.com/containerd/nri) of containerd and CRI-O.
//
// # Connection
//
// [Run] dials the runtime's socket, registers the plugin and serves the runtime's
// requests on the same connection until it ends, then dials again, with pauses that
// double from 100 ms to 2 s and are jittered, so that many nodes do not act in step.
// A connection that did not last 2 s does not bring the pauses back to 100 ms: a
// runtime that drops us at once is not asked in a loop. Each connection begins with a
// Synchronize of everything there is, so what happened in between is not lost. The
// connection is our own instead of NRI's stub's, since Start of that one waits for ever
// when the runtime dies between registration and configuration; the stub still takes
// the requests apart.
//
// # What the runtime takes
//
// cpuset, quota and period of containers, at creation and in updates. No quota is -1
// in both: containerd 2.4 drops a quota of 0 from updates, in which runc 1.5 then
// keeps the old one; -1 becomes -1 in cpu.cfs_quota_us, "max" in cpu.max and infinity
// for systemd. A period is only sent with a quota. NRI has nothing for burst, idle and
// the groups of pods.
//
// In an update containerd hands runc all that its own record of the container says,
// cpuset included, and so undoes what was written beside it. The kubelet's own updates
// are therefore answered with the handler's settings, which take their place; what
// else the kubelet asked for, memory say, stays as asked.
//
// # The runtime never waits for long
//
// The runtime gives a request 2 s by default, then drops the plugin. A handler has
// three quarters of what is left of that, and is abandoned at seven eighths: its
// answer is then "nothing to say". The same holds for a handler that panics, and for
// requests that find an abandoned call still running. Errors that a handler returns of
// its own will do fail the container's creation or start, as they say.
//
// # Other plugins
//
// Two plugins that set the same field of a container fail its creation, and no plugin is
// told. We see it by its consequence: a container for which we gave settings is
// stopped or created anew without ever being started. The next attempt is then left
// alone by Create; the handler's Start, which comes before the first instruction, is
// where its settings are written. If a field has changed by then beyond what was
// asked of us, another plugin is proven, and Create stays silent until the next
// connection. A container that comes with CPUs has them from a plugin called before us or
// from the kubelet's static CPU manager: they are left alone as well. Each is told to
// [Options].OnConflict.
//
// NRI (0.12) does not mind two plugins of one name and index; when a runtime does, the
// refusal says so.
package nri
