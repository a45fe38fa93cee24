package control

import (
	"errors"
	"fmt"
	"syscall"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

// ErrBlocked reports that CPUs are not free because a group of another pod could not be moved off
// them.
var ErrBlocked = errors.New("the CPUs are still held by another pod, which could not be moved")

// Carry carries out the actions with apply, in order. A group that cannot be moved keeps its CPUs,
// and groups of other pods do not get those CPUs if either side is to have them exclusively.
func (a Actions) Carry(apply func(map[string]cgroup.Wanted) cgroup.Outcome) Result {
	r := Result{Failed: map[string]error{}, done: map[string][]cgroup.Wanted{}}
	r.add(a.Widen, apply)
	var stuck []Holding
	for _, m := range a.Moves {
		holding := a.Held[m.Path]
		cpus := m.CPUs.Difference(taken(stuck, m))
		if cpus.IsEmpty() {
			r.fail(m.Path, fmt.Errorf("%s: CPUs %s: %w", m.Path, m.CPUs, ErrBlocked))
			stuck = append(stuck, holding)
			continue
		}
		err := r.add(map[string]cgroup.Wanted{m.Path: {CPUs: &cpus, Nested: true}}, apply)[m.Path]
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
	r.add(a.Rest, apply)
	return r
}

// narrow takes CPUs from pods' groups that the plan does not give them and that no group in
// them has.
func (r *Result) narrow(a Actions, apply func(map[string]cgroup.Wanted) cgroup.Outcome) {
	wanted := map[string]cgroup.Wanted{}
	for group, n := range a.Narrow {
		cpus := n.CPUs
		for below, held := range n.Below {
			if now, ok := a.Held[below]; ok && len(r.done[below]) > 0 {
				held = now.CPUs
			}
			cpus = cpus.Union(held)
		}
		wanted[group] = cgroup.Wanted{CPUs: &cpus}
	}
	for group, err := range r.add(wanted, apply) {
		if errors.Is(err, syscall.EBUSY) { // a group has come meanwhile; the next round sees it
			delete(r.Failed, group)
		}
	}
}

// taken are the CPUs that a move must leave out.
func taken(stuck []Holding, m Move) (cpus cpuset.Set) {
	for _, s := range stuck {
		if s.Pod != m.Pod && (s.Exclusive || m.Exclusive) {
			cpus = cpus.Union(s.CPUs)
		}
	}
	return cpus
}

// add applies some settings and returns what failed of them.
func (r *Result) add(wanted map[string]cgroup.Wanted, apply func(map[string]cgroup.Wanted) cgroup.Outcome) map[string]error {
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
			r.done[path] = append(r.done[path], w)
		}
	}
	return outcome.Failed
}

func (r *Result) fail(path string, err error) { r.Failed[path] = errors.Join(r.Failed[path], err) }
