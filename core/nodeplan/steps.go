package nodeplan

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// Assignment is the cpuset of one container.
type Assignment struct {
	Ref       Ref
	CPUs      cpuset.Set
	Exclusive bool // to the container's pod
}

// Step is one write of a container's cpuset.
type Step struct {
	Ref  Ref
	CPUs cpuset.Set
}

// Assignments returns the planned cpusets of the running containers that have one.
func (d Desired) Assignments() []Assignment {
	var all []Assignment
	for _, p := range d.Pods {
		for _, c := range p.Containers {
			if c.Running && !c.CPUs.IsEmpty() {
				all = append(all, Assignment{Ref{p.ID, c.Name}, c.CPUs, c.Home == HomeExclusive})
			}
		}
	}
	return all
}

// Steps returns the writes that lead from one list of assignments to another, which leaves the CPUs
// shared to no pod alone. In their order, no container gets a CPU that another pod has exclusively,
// and none gets a CPU exclusively that another pod still has, except where two pods exchange single CPUs and none
// is shared. Containers that are only in `from`
// are gone. Containers that are only in `to` are new: they are written last, after the steps that
// free their CPUs. Package linux/cgroup orders the writes within one branch of the tree.
//
// First, containers that lose CPUs shrink to what they keep. A container that keeps none moves to
// those of its new CPUs that are exclusive to no other pod before or after and, if they become
// exclusive, that no other pod had before. Next come moves for which there are no such CPUs, each
// after those that free its CPUs. Where containers wait for each other's CPUs, one of them gives
// way (see giveWay). Last, containers grow to their final CPUs.
func Steps(from, to []Assignment, shared cpuset.Set) []Step {
	before := map[Ref]Assignment{}
	for _, a := range from {
		before[a.Ref] = a
	}
	held, heldExclusively, wanted := newPodUnions(from, false), newPodUnions(from, true), newPodUnions(to, true)
	var shrink, grow []Step
	var move []Assignment
	for _, a := range to {
		old, known := before[a.Ref]
		if known && old.CPUs == a.CPUs {
			continue
		}
		final := Step{a.Ref, a.CPUs}
		kept := old.CPUs.Intersection(a.CPUs)
		if kept.IsEmpty() && known {
			others := heldExclusively
			if a.Exclusive {
				others = held
			}
			kept = a.CPUs.Difference(others.besides(a.Ref.Pod)).Difference(wanted.besides(a.Ref.Pod))
		}
		switch {
		case !known:
			grow = append(grow, final)
			continue
		case kept.IsEmpty():
			move = append(move, a)
			continue
		case kept != old.CPUs:
			shrink = append(shrink, Step{a.Ref, kept})
		}
		if kept != a.CPUs {
			grow = append(grow, final)
		}
	}
	moved, more := inOrder(move, before, shared)
	return slices.Concat(shrink, moved, grow, more)
}

// inOrder returns the steps of moves, each after those that free its CPUs. If a move failed, a
// container that had got its CPUs before would share them for as long as it fails. grow are steps
// that follow all others.
func inOrder(moves []Assignment, at map[Ref]Assignment, shared cpuset.Set) (steps, grow []Step) {
	for len(moves) > 0 {
		leaving := make([]Assignment, len(moves))
		for i, m := range moves {
			leaving[i] = at[m.Ref]
		}
		held, heldExclusively := newPodUnions(leaving, false), newPodUnions(leaving, true)
		free := func(m Assignment) cpuset.Set {
			if m.Exclusive {
				return m.CPUs.Difference(held.besides(m.Ref.Pod))
			}
			return m.CPUs.Difference(heldExclusively.besides(m.Ref.Pod))
		}
		var blocked []Assignment
		for _, m := range moves {
			if free(m) == m.CPUs {
				steps = append(steps, Step{m.Ref, m.CPUs})
			} else {
				blocked = append(blocked, m)
			}
		}
		if len(blocked) == len(moves) {
			i, to := giveWay(moves, leaving, free, shared.Difference(heldExclusively.after[0]))
			m := moves[i]
			steps = append(steps, Step{m.Ref, to})
			at[m.Ref] = Assignment{m.Ref, to, leaving[i].Exclusive && to.IsSubsetOf(leaving[i].CPUs)}
			if to.IsSubsetOf(m.CPUs) {
				grow = append(grow, Step{m.Ref, m.CPUs})
				blocked = slices.Delete(blocked, i, i+1)
			}
		}
		moves = blocked
	}
	return steps, grow
}

// giveWay chooses one of several containers that wait for each other's CPUs, and the CPUs to which
// it moves: its new ones that no other pod has; else one that it has already; else a shared one, of
// rest. If no CPU is shared, two pods that exchange single CPUs both have one for a moment.
func giveWay(moves, leaving []Assignment, free func(Assignment) cpuset.Set, rest cpuset.Set) (which int, to cpuset.Set) {
	for i, m := range moves {
		if some := free(m); !some.IsEmpty() {
			return i, some
		}
	}
	for i, l := range leaving {
		if l.CPUs.Len() > 1 {
			return i, cpuset.Of(l.CPUs.First())
		}
	}
	for i, l := range leaving {
		if !rest.IsEmpty() && !l.CPUs.IsSubsetOf(rest) {
			return i, cpuset.Of(rest.First())
		}
	}
	return 0, moves[0].CPUs
}

// podUnions are the CPUs of pods.
type podUnions struct {
	at map[ledger.PodID]int
	// before and after are the CPUs of all pods before and after each one.
	before, after []cpuset.Set
}

// newPodUnions sums up assignments by pod, or only those that are exclusive.
func newPodUnions(all []Assignment, onlyExclusive bool) podUnions {
	u := podUnions{at: map[ledger.PodID]int{}}
	var own []cpuset.Set
	for _, a := range all {
		if onlyExclusive && !a.Exclusive {
			continue
		}
		at, ok := u.at[a.Ref.Pod]
		if !ok {
			at = len(own)
			u.at[a.Ref.Pod], own = at, append(own, cpuset.Set{})
		}
		own[at] = own[at].Union(a.CPUs)
	}
	u.before, u.after = make([]cpuset.Set, len(own)+1), make([]cpuset.Set, len(own)+1)
	for i := range own {
		u.before[i+1] = u.before[i].Union(own[i])
	}
	for i := len(own) - 1; i >= 0; i-- {
		u.after[i] = u.after[i+1].Union(own[i])
	}
	return u
}

// besides returns the CPUs of all pods except one.
func (u *podUnions) besides(pod ledger.PodID) cpuset.Set {
	at, ok := u.at[pod]
	if !ok {
		return u.after[0]
	}
	return u.before[at].Union(u.after[at+1])
}
