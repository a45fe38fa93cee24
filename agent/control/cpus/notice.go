package cpus

import (
	"fmt"

	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// CPUsUnavailable is the reason of the problem that a container does not run on all CPUs that its
// cgroup has. Version 2 accepts any CPUs, and uses those that are online, in the groups above, and
// in no partition of another group.
const CPUsUnavailable = "CPUsUnavailable"

// UnknownGroup is the reason of the note that a cgroup in a pod's cgroup has a name that is not a
// container's.
const UnknownGroup = "UnknownGroup"

// unavailable returns the containers that do not run on all of their CPUs.
func unavailable(s *node.State) (all []*node.Limited) {
	if !s.Binds {
		return nil
	}
	for i := range s.Limited {
		l := &s.Limited[i]
		if has := s.View.Settings[l.Path]; !l.IsPod() && !has.CPUs.IsEmpty() && !has.Effective.IsEmpty() && has.Effective != has.CPUs {
			all = append(all, l)
		}
	}
	return all
}

// unavailableNotices returns the problems of the containers that do not run on all of their CPUs:
// one for each container with CPUs of its own, and one for all that lack the same shared CPUs.
func unavailableNotices(s *node.State) (problems []node.Notice) {
	const why = "the others are offline, not in a group above, or in a partition of another group"
	shared := map[cpuset.Set]bool{} // effective CPUs
	for _, l := range unavailable(s) {
		has := s.View.Settings[l.Path]
		switch {
		case has.CPUs != s.Plan.Shared:
			problems = append(problems, s.Pods.NewNotice(l.Ref.Pod, CPUsUnavailable, fmt.Sprintf("container %q of pod %s has CPUs %s but runs on %s: %s",
				l.Ref.Container, s.Pods.NameOf(l.Ref.Pod), has.CPUs, has.Effective, why)))
		case !shared[has.Effective]:
			shared[has.Effective] = true
			problems = append(problems, node.Notice{Reason: CPUsUnavailable, Message: fmt.Sprintf("containers with the shared CPUs %s run on %s: %s",
				has.CPUs, has.Effective, why)})
		}
	}
	return problems
}

// Notices returns what is wrong with the CPUs of containers, and what is done differently than
// planned.
func (c *Controller) Notices(s *node.State) (problems, notes []node.Notice) {
	return unavailableNotices(s), append(unknownGroupNotes(s), c.partitionNotes(s)...)
}

// unknownGroupNotes returns the notes about cgroups in pods whose names are not containers', except
// CRI-O's monitor.
func unknownGroupNotes(s *node.State) (notes []node.Notice) {
	if !s.Binds {
		return nil
	}
	for _, pod := range s.View.Pods {
		for _, other := range pod.Others {
			if isMonitor(other) {
				continue
			}
			message := fmt.Sprintf("the name of cgroup %s is not a container's. ", other)
			if has, ok := s.View.Settings[other]; ok {
				message += fmt.Sprintf("Everything in it runs on CPUs %s; if containers of the pod run in it, their own quota is not enforced",
					node.CPUsText(has.CPUs))
			} else {
				message += "It has no CPUs of its own and uses those of its pod"
			}
			notes = append(notes, s.Pods.NewNotice(ledger.PodID(pod.UID), UnknownGroup, message))
		}
	}
	return notes
}
