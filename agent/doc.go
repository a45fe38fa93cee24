// Package agent is the daemon of a node: it observes (the Node, its pods, the kubelet's
// configuration, the machine, the control groups, the load of the CPUs), has package
// control decide, writes what differs, and reports: the node's topology object, a
// condition, events, metrics.
//
// It does so when something has changed, at a bounded rate, and periodically. The
// container runtime asks it beforehand, by NRI, where that is there.
//
// It fails static: when it ends, however it ends, nothing is undone but the quota that it
// raised for a moment (the next agent does that for one that was killed), and when it starts
// it changes only what differs. What it cannot reach (the API server, the kubelet, the
// runtime) it goes on without, with what it knew last.
package agent
