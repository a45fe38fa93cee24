package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pinfold.dev/pinfold/agent/control/allocate"
	"pinfold.dev/pinfold/agent/control/cpus"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// problems returns the problems and the notes of the node and its pods.
func (c *Control) problems() (all, notes []Notice) {
	for _, note := range c.node.notes {
		notes = append(notes, Notice{Reason: DamagedTopology, Message: "topology: " + note})
	}
	if withheld := c.node.allowed.note(); withheld != "" {
		notes = append(notes, Notice{Reason: Withheld, Message: withheld})
	}
	if quota := c.node.allowed.quota; quota != "" {
		all = append(all, Notice{Reason: Throttled, Message: quota})
	}
	if damage := c.allocate.Damage(); damage != "" {
		notes = append(notes, Notice{Reason: DamagedState, Message: damage})
	}
	for _, f := range c.round.Plan.Findings {
		n := c.NewNotice(f.Pod, string(f.Kind), f.Describe(c.NameOf))
		if f.IsNote() {
			notes = append(notes, n)
		} else {
			all = append(all, n)
		}
	}
	for i := range c.All {
		s := &c.All[i]
		if s.Problem != nil {
			reason := BadAllocation
			if is, _ := allocate.NotGiven(s.Problem, false); is {
				reason = NotGiven
			}
			all = append(all, Notice{s.Object, reason, fmt.Sprintf("pod %s: %v", s.Name(), s.Problem)})
		}
		if id := s.Forged(); id != "" { // not a problem: it harms no other pod
			notes = append(notes, Notice{s.Object, NotAStaticPod, fmt.Sprintf("pod %s has the annotations of a mirror pod, but the "+
				"kubelet runs no such static pod: the pod gets nothing of cgroup %s", s.Name(), id)})
		}
	}
	all = append(all, c.unavailableNotices()...)
	for _, path := range slices.Sorted(maps.Keys(c.failures)) {
		if err := c.failures[path]; !errors.Is(err, ErrBlocked) {
			all = append(all, Notice{Reason: CannotWrite, Message: err.Error()})
		}
	}
	if c.hold() != "" {
		return all, notes
	}
	return all, slices.Concat(notes, c.pinnedNotes(), c.unknownGroupNotes(), c.partitionNotes(), c.batchNotes())
}

// unavailableNotices returns the problems of the containers that do not run on all of their CPUs:
// one for each container with CPUs of its own, and one for all that lack the same shared CPUs.
func (c *Control) unavailableNotices() (problems []Notice) {
	const why = "the others are offline, not in a group above, or in a partition of another group"
	shared := map[cpuset.Set]bool{} // effective CPUs
	for _, l := range cpus.Unavailable(&c.round) {
		s := c.round.Settings[l.Path]
		switch {
		case s.CPUs != c.round.Plan.Shared:
			problems = append(problems, c.NewNotice(l.Ref.Pod, CPUsUnavailable, fmt.Sprintf("container %q of pod %s has CPUs %s but runs on %s: %s",
				l.Ref.Container, c.NameOf(l.Ref.Pod), s.CPUs, s.Effective, why)))
		case !shared[s.Effective]:
			shared[s.Effective] = true
			problems = append(problems, Notice{Reason: CPUsUnavailable, Message: fmt.Sprintf("containers with the shared CPUs %s run on %s: %s",
				s.CPUs, s.Effective, why)})
		}
	}
	return problems
}

// pinnedNotes returns the notes about containers whose threads run on a part of their CPUs.
func (c *Control) pinnedNotes() (notes []Notice) {
	for i := range c.round.Planned {
		l := &c.round.Planned[i]
		if cpus, of, is := c.cpus.Pinned(l.Path); is && c.round.BindsCPUs() {
			notes = append(notes, c.NewNotice(l.Ref.Pod, Pinned, fmt.Sprintf("threads of container %q of pod %s run on CPUs %s of its %s: it binds them itself, "+
				"or inherits this from the container runtime (CPUAffinity= of its service)", l.Ref.Container, c.NameOf(l.Ref.Pod), cpus, of)))
		}
	}
	return notes
}

// unknownGroupNotes returns the notes about cgroups in pods whose names are not containers', except
// CRI-O's monitor.
func (c *Control) unknownGroupNotes() (notes []Notice) {
	if !c.round.Binds {
		return nil
	}
	for _, pod := range c.round.View.Pods {
		for _, other := range pod.Others {
			if groups.IsMonitor(other) {
				continue
			}
			message := fmt.Sprintf("the name of cgroup %s is not a container's. ", other)
			if s, ok := c.round.Settings[other]; ok {
				message += fmt.Sprintf("Everything in it runs on CPUs %s; if containers of the pod run in it, their own quota is not enforced",
					cpusText(s.CPUs))
			} else {
				message += "It has no CPUs of its own and uses those of its pod"
			}
			notes = append(notes, c.NewNotice(ledger.PodID(pod.UID), UnknownGroup, message))
		}
	}
	return notes
}

// partitionNotes returns the notes about containers that could not become partitions.
func (c *Control) partitionNotes() (notes []Notice) {
	if !c.config.Partitioned() {
		return nil
	}
	if group := cpus.Obstacle(c.round.Groups); group != "" {
		return []Notice{{Reason: NotPartitioned, Message: fmt.Sprintf("no container can be a cpuset partition, because %s is one: "+
			"make that a member, or run the agent with --partition=none", group)}}
	}
	failed := c.cpus.Unpartitioned()
	for _, group := range slices.Sorted(maps.Keys(failed)) {
		if f := failed[group]; f.Err != nil {
			notes = append(notes, c.NewNotice(f.Ref.Pod, NotPartitioned, fmt.Sprintf("CPUs %s of container %q of pod %s are not a cpuset partition, "+
				"so processes outside of Kubernetes may run on them: %v", f.CPUs, f.Ref.Container, c.NameOf(f.Ref.Pod), f.Err)))
		}
	}
	return notes
}

// batchNotes returns the notes about a tier of batch pods with idle priority, which the agent does
// not set (the kernel then rejects the weights that the kubelet writes to the tier), and about
// mechanisms that are to be used and that the machine lacks.
func (c *Control) batchNotes() (notes []Notice) {
	if tier := c.round.BatchTier(); c.round.Settings[tier].Idle {
		notes = append(notes, Notice{Reason: IdleTier, Message: fmt.Sprintf("another program has set cpu.idle of %s, so all pods of QoS class "+
			"BestEffort run behind all others, and the kubelet cannot write their weight; the agent leaves it", tier)})
	}
	chosen := c.batch.Mechanisms(c.round.Groups)
	if len(chosen.Lacking) == 0 {
		return notes
	}
	var why, used []string
	for _, m := range chosen.Lacking {
		why = append(why, fmt.Sprintf("%s (%s)", m, c.round.Lacking[m]))
	}
	for _, m := range chosen.Use {
		used = append(used, string(m))
	}
	instead := "so batch pods run like others"
	if len(used) > 0 {
		instead = "the agent uses " + strings.Join(used, " and ")
	}
	return append(notes, Notice{Reason: LackingMechanism, Message: fmt.Sprintf("to put batch pods behind others, the machine lacks %s; %s",
		strings.Join(why, ", "), instead)})
}

// podNotices returns what the authors of pods should know about their annotations and moves.
func (c *Control) podNotices() (all []Notice) {
	if m := c.allocate.Moved(); m != nil {
		all = append(all, Notice{m.Pod, Moved, fmt.Sprintf("pod %s/%s: %s", m.Pod.Namespace, m.Pod.Name, m.Text)})
	}
	for i := range c.All {
		s := &c.All[i]
		add := func(reason, message string) {
			all = append(all, Notice{s.Object, reason, fmt.Sprintf("pod %s: %s", s.Name(), message)})
		}
		if loss := c.allocate.Loss(s); loss != "" {
			add(Lost, loss)
		}
		for _, message := range s.AboveCeiling {
			add(AboveCeiling, message)
		}
		for _, message := range s.Unknown {
			add(UnknownKey, message)
		}
		for _, message := range s.Ignored {
			if s.Problem == nil || !strings.Contains(s.Problem.Error(), message) {
				add(Ignored, message)
			}
		}
		if c.quota.Postponed(s, c.round.Now) {
			add(Postponed, "its CPU annotations take effect when its containers have used less than their limits for a moment, "+
				"because the change itself gives them CPU time")
		}
	}
	return all
}
