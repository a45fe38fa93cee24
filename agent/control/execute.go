package control

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// ErrBlocked reports that CPUs are not free because a cgroup of another pod could not be moved off
// them.
var ErrBlocked = errors.New("the CPUs are still held by another pod, which could not be moved")

// Result is the outcome of a decision.
type Result struct {
	Written []cgroup.Write
	Failed  map[string]error // by path
	// Unpartitioned are the containers that could not become partitions, by path.
	Unpartitioned map[string]error
	// effective are the CPUs on which containers run after the writes, of those that did not run on
	// all of theirs before, by path.
	effective map[string]cpuset.Set
	// applied are the settings that were applied without error, by path.
	applied map[string][]cgroup.Wanted
}

// Err returns all failures joined into one error, except those of cgroups that have disappeared.
func (r Result) Err() error {
	var errs []error
	for _, path := range slices.Sorted(maps.Keys(r.Failed)) {
		if err := r.Failed[path]; !errors.Is(err, cgroup.ErrGone) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Kernel writes and reads cgroups.
type Kernel interface {
	// Apply applies settings of several cgroups, by path.
	Apply(wanted map[string]cgroup.Wanted) cgroup.Outcome
	// Effective returns the CPUs on which the threads of a cgroup may run.
	Effective(group string) (cpuset.Set, error)
}

// Execute carries out the decision, in order. A cgroup that cannot be moved keeps its CPUs, and
// cgroups of other pods do not get those CPUs if either side is to have them exclusively.
func (a Decision) Execute(k Kernel) Result {
	apply := k.Apply
	a.Held = maps.Clone(a.Held)
	r := Result{Failed: map[string]error{}, Unpartitioned: map[string]error{}, effective: map[string]cpuset.Set{},
		applied: map[string][]cgroup.Wanted{}}
	r.apply(a.Release, apply)
	r.apply(a.Widen, apply)
	var stuck []Holding
	for _, m := range a.Moves {
		holding := a.Held[m.Path]
		cpus := m.CPUs.Difference(blockedCPUs(stuck, m))
		if cpus.IsEmpty() {
			r.fail(m.Path, fmt.Errorf("%s: CPUs %s: %w", m.Path, m.CPUs, ErrBlocked))
			stuck = append(stuck, holding)
			continue
		}
		err := r.apply(map[string]cgroup.Wanted{m.Path: {CPUs: &cpus, Nested: true}}, apply)[m.Path]
		var effective *cgroup.EffectiveError
		switch {
		case err == nil, errors.As(err, &effective):
			holding.CPUs = cpus
			a.Held[m.Path] = holding
		case !errors.Is(err, cgroup.ErrGone):
			stuck = append(stuck, holding)
		}
	}
	r.narrow(a, apply)
	r.apply(a.Bandwidth, apply)
	r.partition(a, apply)
	for _, group := range a.recheck {
		if cpus, err := k.Effective(group); err == nil { // else it has ended, or the next round reports the error
			r.effective[group] = cpus
		}
	}
	return r
}

// narrow removes CPUs from pods' cgroups, except those that a child still has.
func (r *Result) narrow(a Decision, apply func(map[string]cgroup.Wanted) cgroup.Outcome) {
	wanted := map[string]cgroup.Wanted{}
	for group, n := range a.Narrow {
		cpus := n.CPUs
		for child, held := range n.Children {
			if now, ok := a.Held[child]; ok && len(r.applied[child]) > 0 {
				held = now.CPUs
			}
			cpus = cpus.Union(held)
		}
		wanted[group] = cgroup.Wanted{CPUs: &cpus}
	}
	for group, err := range r.apply(wanted, apply) {
		if errors.Is(err, syscall.EBUSY) { // a child was created meanwhile; the next round sees it
			delete(r.Failed, group)
		}
	}
}

// blockedCPUs returns the CPUs that a move must leave out.
func blockedCPUs(stuck []Holding, m Move) (cpus cpuset.Set) {
	for _, s := range stuck {
		if s.Pod != m.Pod && (s.Exclusive || m.Exclusive) {
			cpus = cpus.Union(s.CPUs)
		}
	}
	return cpus
}

// apply applies settings and returns what failed.
func (r *Result) apply(wanted map[string]cgroup.Wanted, apply func(map[string]cgroup.Wanted) cgroup.Outcome) map[string]error {
	if len(wanted) == 0 {
		return nil
	}
	outcome := apply(wanted)
	r.Written = append(r.Written, outcome.Written...)
	for path, err := range outcome.Failed {
		r.fail(path, err)
	}
	for path, w := range wanted {
		if outcome.Failed[path] == nil {
			r.applied[path] = append(r.applied[path], w)
		}
	}
	return outcome.Failed
}

func (r *Result) fail(path string, err error) { r.Failed[path] = errors.Join(r.Failed[path], err) }

// Applied records the outcome of the last decision, and returns what follows from it.
func (c *Control) Applied(r Result) Status {
	if c.hold() == "" {
		c.record(r)
	}
	s := c.status()
	c.asked = nil
	return s
}

func (c *Control) record(r Result) {
	c.failures = map[string]error{}
	c.countWrites(r)
	for path, err := range r.Failed {
		if errors.Is(err, cgroup.ErrGone) {
			delete(c.view.Settings, path)
			continue
		}
		if err = c.withoutEffective(path, err); err != nil {
			c.failures[path] = err
		}
	}
	for path, all := range r.applied {
		for _, w := range all {
			if present, ok := c.view.Settings[path]; ok {
				target := cgroup.Change{Path: path, Present: present, Wanted: w}.Target()
				if w.CPUs != nil && !present.Effective.IsEmpty() {
					target.Effective = *w.CPUs // Apply has compared them
				}
				c.view.Settings[path] = target
			}
		}
	}
	for path, cpus := range r.effective {
		if s, ok := c.view.Settings[path]; ok {
			s.Effective = cpus
			c.view.Settings[path] = s
		}
	}
	c.rememberPartitions(r)
	c.updateBudgets(c.now)
	c.changed = nil
	c.expected = maps.Clone(c.view.Settings)
	for path := range c.failures {
		delete(c.expected, path)
	}
}
