package cpus

import (
	"path"
	"slices"
	"strings"

	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
)

// CoreSetsInForce reads the core sets that an earlier agent set from the cgroups of static-burst
// containers. A cgroup with all CPUs was never given a core set.
func CoreSetsInForce(s *node.State) nodeplan.CoreSets {
	sets := map[nodeplan.Ref]cpuset.Set{}
	online := s.Machine.Online()
	pods := s.Pods.All()
	for i := range pods {
		plan := &pods[i].Plan
		for _, claim := range plan.Claim.Containers {
			ref := nodeplan.Ref{Pod: plan.ID, Container: claim.Name}
			present, ok := s.View.Settings[s.Groups.Containers[ref]]
			if ok && claim.Policy == placement.StaticBurst && !present.CPUs.IsEmpty() && present.CPUs != online {
				sets[ref] = present.CPUs
			}
		}
	}
	return nodeplan.CoreSets{Sets: sets}
}

// assignmentsNow returns the present cpusets of the containers in to.
func (c *Controller) assignmentsNow(to []nodeplan.Assignment, s *node.State) []nodeplan.Assignment {
	var from []nodeplan.Assignment
	for _, a := range to {
		path := s.Groups.Containers[a.Ref]
		own, planned := c.exclusive[path]
		if !planned && a.Exclusive { // set by an earlier agent
			own = a.CPUs
		}
		held := s.Held(path) // not exclusive if the cgroup holds more than its own CPUs
		from = append(from, nodeplan.Assignment{Ref: a.Ref, CPUs: held, Exclusive: !own.IsEmpty() && held.IsSubsetOf(own)})
	}
	return from
}

// assignmentsWanted returns the planned cpusets of cgroups that exist. Unknown containers get the
// shared CPUs.
func assignmentsWanted(s *node.State) []nodeplan.Assignment {
	to := slices.DeleteFunc(s.Plan.Assignments(), func(a nodeplan.Assignment) bool { return !s.View.Exists(s.Groups.Containers[a.Ref]) })
	if !s.Binds {
		return to
	}
	for _, ref := range s.Groups.Unknown {
		if s.View.Exists(s.Groups.Containers[ref]) && !s.Plan.Shared.IsEmpty() {
			to = append(to, nodeplan.Assignment{Ref: ref, CPUs: s.Plan.Shared})
		}
	}
	pods := plannedByPod(s)
	for _, ref := range s.Groups.Others {
		if a := otherAssignment(ref, s.Plan.Shared, pods[ref.Pod], isMonitor(s.Groups.Containers[ref])); s.View.Exists(s.Groups.Containers[ref]) && !a.CPUs.IsEmpty() {
			to = append(to, a)
		}
	}
	return to
}

// plannedCPUs are the planned CPUs of the running containers of a pod.
type plannedCPUs struct {
	all, exclusive cpuset.Set // of those that have no cgroup of their own
	own            cpuset.Set // all exclusive ones
}

// plannedByPod returns the planned CPUs by pod, if any pod has a cgroup whose name is not a
// container's.
func plannedByPod(s *node.State) map[ledger.PodID]plannedCPUs {
	if len(s.Groups.Others) == 0 {
		return nil
	}
	pods := map[ledger.PodID]plannedCPUs{}
	for _, a := range s.Plan.Assignments() {
		in := pods[a.Ref.Pod]
		runsHere := !s.View.Exists(s.Groups.Containers[a.Ref])
		if runsHere {
			in.all = in.all.Union(a.CPUs)
		}
		if a.Exclusive {
			in.own = in.own.Union(a.CPUs)
		}
		if runsHere && a.Exclusive {
			in.exclusive = in.exclusive.Union(a.CPUs)
		}
		pods[a.Ref.Pod] = in
	}
	return pods
}

// otherAssignment returns the CPUs of a cgroup whose name is not a container's. Running containers
// of its pod that have no cgroup of their own (for example, in a virtual machine) run in it, so it
// gets their CPUs. Without such containers it is a helper, and gets the shared CPUs. In a pod with
// exclusive CPUs it gets only these, because the pod's quota is removed and nothing else bounds it.
// CRI-O's monitor is an exception.
func otherAssignment(other nodeplan.Ref, shared cpuset.Set, in plannedCPUs, monitor bool) nodeplan.Assignment {
	switch {
	case !in.exclusive.IsEmpty():
		return nodeplan.Assignment{Ref: other, CPUs: in.exclusive, Exclusive: true}
	case !in.own.IsEmpty() && !monitor:
		return nodeplan.Assignment{Ref: other, CPUs: in.own, Exclusive: true}
	case !in.all.IsEmpty():
		return nodeplan.Assignment{Ref: other, CPUs: in.all}
	}
	return nodeplan.Assignment{Ref: other, CPUs: shared}
}

// isMonitor reports whether a cgroup is that of CRI-O's monitor.
func isMonitor(group string) bool { return strings.Contains(path.Base(group), "conmon") }
