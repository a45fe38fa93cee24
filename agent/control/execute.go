package control

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"syscall"
	"time"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// ErrBlocked reports that CPUs are not free because a cgroup of another pod could not be moved off
// them.
var ErrBlocked = errors.New("the CPUs are still held by another pod, which could not be moved")

// Result is what doing what was ready has shown.
type Result struct {
	// Usage is the CPU time that the cgroups of Ready.Read have used since they were created, by path.
	Usage map[string]time.Duration
	// Saved is why Ready.Save could not be saved, or nil. The pods lose what is not saved.
	Saved error
	groups.Outcome
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
	// ThreadCPUs returns the CPUs that the threads of a cgroup and those below it may run on, by their
	// own affinity, too: none if nothing has ever run there. If they cannot be seen, it returns an error.
	ThreadCPUs(group string) (cpuset.Set, error)
}

// Execute carries out the decision, in order. A cgroup that cannot be moved keeps its CPUs, and
// cgroups of other pods do not get those CPUs if either side is to have them exclusively.
func (a Decision) Execute(k Kernel) Result {
	apply := k.Apply
	a.Held = maps.Clone(a.Held)
	r := Result{Outcome: groups.Outcome{Failed: map[string]error{}, Unpartitioned: map[string]error{}, Threads: map[string]cpuset.Set{}},
		effective: map[string]cpuset.Set{}, applied: map[string][]cgroup.Wanted{}}
	r.apply(a.Release, apply)
	r.apply(a.Widen, apply)
	var stuck []groups.Holding
	unmoved := map[string]bool{} // of those that should get CPUs of their own, and run elsewhere
	stay := func(m groups.Move, holding groups.Holding) {
		stuck = append(stuck, holding)
		if m.Exclusive && !holding.Exclusive {
			unmoved[m.Path] = true
		}
	}
	for _, m := range a.Moves {
		holding := a.Held[m.Path]
		free := m.CPUs.Difference(blockedCPUs(stuck, m))
		if free.IsEmpty() {
			r.fail(m.Path, fmt.Errorf("%s: CPUs %s: %w", m.Path, m.CPUs, ErrBlocked))
			stay(m, holding)
			continue
		}
		err := r.apply(map[string]cgroup.Wanted{m.Path: {CPUs: &free, Nested: true}}, apply)[m.Path]
		var effective *cgroup.EffectiveError
		switch {
		case err == nil, errors.As(err, &effective):
			holding.CPUs = free
			a.Held[m.Path] = holding
			if effective != nil && !effective.Effective.IsSubsetOf(free) {
				unmoved[m.Path] = true
			}
		case !errors.Is(err, cgroup.ErrGone):
			stay(m, holding)
		}
	}
	r.narrow(a, apply)
	r.apply(a.withoutLifted(unmoved), apply)
	r.partition(a, apply)
	for _, group := range a.Look {
		if cpus, err := k.ThreadCPUs(group); err == nil { // else they have ended
			r.Threads[group] = cpus
		}
	}
	for _, group := range a.Recheck {
		if cpus, err := k.Effective(group); err == nil { // else it has ended, or the next round reports the error
			r.effective[group] = cpus
		}
	}
	return r
}

// withoutLifted returns the bandwidth to write. Containers that could not be moved to CPUs of their own
// keep their quota.
func (a Decision) withoutLifted(unmoved map[string]bool) map[string]cgroup.Wanted {
	bandwidths := maps.Clone(a.Bandwidth)
	for path := range unmoved {
		if w, ok := bandwidths[path]; ok && w.Quota != nil && *w.Quota == bandwidth.Unlimited {
			w.Quota = nil
			bandwidths[path] = w
		}
	}
	return bandwidths
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

// partition makes partitions of the containers that have their CPUs. A container that does not
// become one is a member again, and the groups above do not keep its CPUs exclusively.
func (r *Result) partition(a Decision, apply func(map[string]cgroup.Wanted) cgroup.Outcome) {
	wanted := maps.Clone(a.Partitions)
	for group, w := range a.Partitions {
		if w.Partition != nil && (r.Failed[group] != nil || a.Held[group].CPUs != *w.Exclusive) {
			delete(wanted, group)
			a.withdraw(wanted, group)
		}
	}
	tried := Result{Outcome: groups.Outcome{Failed: map[string]error{}}, applied: r.applied}
	tried.apply(wanted, apply)
	r.Written = append(r.Written, tried.Written...)
	back := map[string]cgroup.Wanted{}
	for group, err := range tried.Failed {
		if wanted[group].Partition == nil {
			continue // a group above, whose containers have failed, too
		}
		a.withdraw(back, group)
		if errors.Is(err, cgroup.ErrGone) {
			r.fail(group, err)
			continue
		}
		back[group] = cgroup.Wanted{Partition: new(cgroup.PartitionMember), Exclusive: &cpuset.Set{}}
		for above := path.Dir(group); above != "/"; above = path.Dir(above) {
			err = errors.Join(err, tried.Failed[above])
		}
		r.Unpartitioned[group] = err
	}
	r.apply(back, apply)
}

// withdraw takes the CPUs of a container that does not become a partition from the groups above.
func (a Decision) withdraw(wanted map[string]cgroup.Wanted, group string) {
	cpus := *a.Partitions[group].Exclusive
	for above := path.Dir(group); above != "/"; above = path.Dir(above) {
		a.Exclusive[above] = a.Exclusive[above].Difference(cpus)
		wanted[above] = cgroup.Wanted{Exclusive: new(a.Exclusive[above])}
	}
}

// blockedCPUs returns the CPUs that a move must leave out.
func blockedCPUs(stuck []groups.Holding, m groups.Move) (blocked cpuset.Set) {
	for _, s := range stuck {
		if s.Pod != m.Pod && (s.Exclusive || m.Exclusive) {
			blocked = blocked.Union(s.CPUs)
		}
	}
	return blocked
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

// Advance records that what was ready is done, and returns the status after the last decision.
func (c *Control) Advance(done Ready, r Result) Status {
	for path, usage := range r.Usage {
		c.quota.SetUsage(path, usage)
	}
	if done.Save != nil {
		c.allocate.Saved(&c.round, r.Saved)
	}
	if done.Writes != nil {
		if c.hold() == "" {
			c.record(r)
		}
		c.last = c.status()
		c.asked = nil
	}
	return c.last
}

func (c *Control) record(r Result) {
	c.failures = map[string]error{}
	settings := c.round.Settings
	for path, err := range r.Failed {
		present, ok := settings[path]
		switch differs := onlyEffective(err); {
		case errors.Is(err, cgroup.ErrGone):
			delete(settings, path)
		case ok && differs != nil && c.round.Layout.CPUSet == cgroup.V2:
			present.CPUs, present.Effective = differs.Wanted, differs.Effective
			settings[path] = present
		default:
			c.failures[path] = err
		}
	}
	for path, all := range r.applied {
		for _, w := range all {
			if present, ok := settings[path]; ok {
				target := cgroup.Change{Path: path, Present: present, Wanted: w}.Target()
				if w.CPUs != nil && !present.Effective.IsEmpty() {
					target.Effective = *w.CPUs // Apply has compared them
				}
				settings[path] = target
			}
		}
	}
	c.round.Failed = len(c.failures) > 0
	for path, cpus := range r.effective {
		if s, ok := settings[path]; ok {
			s.Effective = cpus
			settings[path] = s
		}
	}
	for _, k := range c.controllers {
		k.Applied(&c.round, &r.Outcome)
	}
	c.watch.changed, c.watch.expected = nil, maps.Clone(settings)
	for path := range c.failures {
		delete(c.watch.expected, path)
	}
}

// onlyEffective returns which CPUs a cgroup has and runs on if the error says only that these
// differ, which [groups.CPUsUnavailable] reports, also in later rounds. Otherwise it returns nil.
func onlyEffective(err error) (differs *cgroup.EffectiveError) {
	for alone := err; ; {
		joined, ok := alone.(interface{ Unwrap() []error })
		if !ok {
			break
		}
		if len(joined.Unwrap()) > 1 {
			return nil
		}
		alone = joined.Unwrap()[0]
	}
	errors.As(err, &differs)
	return differs
}
