package why

import (
	"fmt"
	"strings"

	"pinfold.dev/pinfold/core/blame"
)

// Kind is what made a group, and so where its settings are changed.
type Kind int

// The kinds of groups.
const (
	AnyGroup Kind = iota // of systemd, or made by hand
	NoGroup              // a process that is in the root group
	Run                  // of 'pinfold run'
	Pod                  // a pod, or a container of one
)

// remedies are what to do about a group, in the words of what made it.
type remedies struct {
	burst, limit string
	apart        string // separates it from neighbours of its kind
	own, off     string // gives it CPUs of its own, and keeps it off those of another kind of group
	batch        string // makes it batch work, "" if that is not possible
}

func (k Kind) remedies() remedies {
	switch k {
	case Run:
		return remedies{burst: "run it with --burst 100%", limit: "--limit", off: "run that with --cpuset", batch: "run that with --idle",
			apart: "Run it and its neighbours with --cpus N, on CPUs of their own", own: "Run it with --cpus N, on CPUs of its own"}
	case Pod: // the kubelet and the admission policy let no running pod begin to ask, and parts of a CPU cannot be its own
		const own = `Give it CPUs of its own: in its pod's template, annotation pinfold.dev/cpuset-scheduler: "true" and a whole number of CPUs as requests.cpu and limits.cpu`
		return remedies{burst: "annotate the pod, and its template, with pinfold.dev/cpu-burst: " + burstPolicy, limit: "limits.cpu", apart: own, own: own,
			off: "AllowedCPUs= of the slice of all pods", batch: "make that a batch pod (label pinfold.dev/qos: BE, without requests and limits of CPU and memory)"}
	case NoGroup:
		return remedies{apart: "Give it and its neighbours different CPUs (taskset)", own: "Give it CPUs of its own (taskset)", off: "taskset"}
	}
	return remedies{burst: "set cpu.max.burst (cgroup version 1: cpu.cfs_burst_us) to the quota", limit: "CPUQuota= or cpu.max",
		apart: "Give it and its neighbours different CPUs (AllowedCPUs= or cpuset.cpus)",
		own:   "Give it CPUs of its own (AllowedCPUs= or cpuset.cpus)", off: "AllowedCPUs= or cpuset.cpus", batch: "set CPUWeight=idle or cpu.idle for that"}
}

// burstPolicy is the value of the annotation that lets a pod use what it saved up.
const burstPolicy = `'{"policy":"auto"}'`

// annotate returns the command that gives a container's pod a burst, "" if it is no pod, or one whose name is
// not known.
func (c *Container) annotate(kind Kind) string {
	name := strings.Split(c.Name, "/") // NAMESPACE/POD/CONTAINER
	if kind != Pod || len(name) != 3 || name[0] == "" {
		return ""
	}
	return fmt.Sprintf("kubectl -n %s annotate pod %s --overwrite pinfold.dev/cpu-burst=%s", name[0], name[1], burstPolicy)
}

// apart says how to separate a group from the neighbour that it waits behind most.
func (r *Report) apart(own blame.Group) string {
	neighbour := r.neighbour(&r.Groups[own].Parts, own)
	kind, other := r.Kind(own), r.Kind(neighbour.by.Group)
	advice := kind.remedies().apart
	if kind != other {
		advice = fmt.Sprintf("%s, and keep %s off them (%s)", kind.remedies().own, neighbour.name, other.remedies().off)
	}
	if batch := other.remedies().batch; batch != "" && r.Yields(neighbour.by.Group, own) {
		advice += fmt.Sprintf("; or, if %s is batch work, %s", neighbour.name, batch)
	}
	return advice + "."
}
