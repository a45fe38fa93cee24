package control

import (
	"errors"
	"fmt"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// CPUsUnavailable is the reason of the problem that a container does not run on all CPUs that its
// cgroup has. Version 2 accepts any CPUs, and uses those that are online, in the groups above, and
// in no partition of another group.
const CPUsUnavailable = "CPUsUnavailable"

// unavailable returns the containers that do not run on all of their CPUs.
func (c *Control) unavailable() (all []*Limited) {
	if c.hold() != "" || !c.binds() {
		return nil
	}
	for i := range c.limited {
		l := &c.limited[i]
		if s := c.view.Settings[l.Path]; !l.isPod() && !s.CPUs.IsEmpty() && !s.Effective.IsEmpty() && s.Effective != s.CPUs {
			all = append(all, l)
		}
	}
	return all
}

// withoutEffective records which CPUs a cgroup has and runs on if the error says only that these
// differ, and returns nil then: Control.unavailable covers it, also in later rounds. It returns
// other errors, and those on version 1.
func (c *Control) withoutEffective(path string, err error) error {
	s, ok := c.view.Settings[path]
	if !ok || c.view.Layout.CPUSet != cgroup.V2 {
		return err
	}
	for alone := err; ; {
		joined, ok := alone.(interface{ Unwrap() []error })
		if !ok {
			break
		}
		if len(joined.Unwrap()) > 1 {
			return err
		}
		alone = joined.Unwrap()[0]
	}
	var differs *cgroup.EffectiveError
	if !errors.As(err, &differs) {
		return err
	}
	s.CPUs, s.Effective = differs.Wanted, differs.Effective
	c.view.Settings[path] = s
	return nil
}

// unavailableNotices returns the problems of the containers that do not run on all of their CPUs:
// one for each container with CPUs of its own, and one for all that lack the same shared CPUs.
func (c *Control) unavailableNotices() (problems []Notice) {
	const why = "the others are offline, not in a group above, or in a partition of another group"
	shared := map[cpuset.Set]bool{} // effective CPUs
	for _, l := range c.unavailable() {
		s := c.view.Settings[l.Path]
		switch {
		case s.CPUs != c.plan.Shared:
			problems = append(problems, c.NewNotice(l.Ref.Pod, CPUsUnavailable, fmt.Sprintf("container %q of pod %s has CPUs %s but runs on %s: %s",
				l.Ref.Container, c.podName(l.Ref.Pod), s.CPUs, s.Effective, why)))
		case !shared[s.Effective]:
			shared[s.Effective] = true
			problems = append(problems, Notice{Reason: CPUsUnavailable, Message: fmt.Sprintf("containers with the shared CPUs %s run on %s: %s",
				s.CPUs, s.Effective, why)})
		}
	}
	return problems
}
