package nodeplan

import (
	"pinfold.dev/pinfold/core/cpuset"
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

// Steps returns the writes that lead from the assignments in force to others, in an order in which
// nobody is given a CPU that another pod has exclusively, nor exclusively a CPU that another pod
// still has. (Who is to live in shared CPUs from now on has none exclusively any more.) Containers
// that are only in one of the two are gone or have nothing to be moved from; those that are new are
// written last.
//
// First, everybody who loses CPUs shrinks to what it keeps; who keeps none moves to those of its
// new CPUs that nobody has exclusively before or after. Who has no such CPUs moves next, and only
// among those, when pods trade exclusive CPUs with each other, can a CPU be two pods' for a moment.
// Last, everybody grows to what it shall have.
func Steps(from, to []Assignment) []Step {
	before := map[Ref]Assignment{}
	for _, a := range from {
		before[a.Ref] = a
	}
	var shrink, move, grow []Step
	for _, a := range to {
		old, known := before[a.Ref]
		if known && old.CPUs == a.CPUs {
			continue
		}
		final := Step{a.Ref, a.CPUs}
		kept := old.CPUs.Intersection(a.CPUs)
		if kept.IsEmpty() && known {
			kept = a.CPUs.Difference(othersExclusive(a.Ref, from)).Difference(othersExclusive(a.Ref, to))
			if a.Exclusive {
				kept = kept.Difference(othersAny(a.Ref, from))
			}
		}
		switch {
		case !known:
			grow = append(grow, final)
			continue
		case kept.IsEmpty():
			move = append(move, final)
			continue
		case kept != old.CPUs:
			shrink = append(shrink, Step{a.Ref, kept})
		}
		if kept != a.CPUs {
			grow = append(grow, final)
		}
	}
	return append(append(shrink, move...), grow...)
}

// othersExclusive are the CPUs that are exclusive to other pods.
func othersExclusive(r Ref, all []Assignment) (cpus cpuset.Set) {
	for _, a := range all {
		if a.Exclusive && a.Ref.Pod != r.Pod {
			cpus = cpus.Union(a.CPUs)
		}
	}
	return cpus
}

// othersAny are the CPUs of all other pods.
func othersAny(r Ref, all []Assignment) (cpus cpuset.Set) {
	for _, a := range all {
		if a.Ref.Pod != r.Pod {
			cpus = cpus.Union(a.CPUs)
		}
	}
	return cpus
}
