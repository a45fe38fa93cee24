package blame

import (
	"cmp"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/quantity"
)

// Cause is the main reason why threads did not run when they wanted to.
type Cause string

// The causes.
const (
	NotRunnable   Cause = "not-runnable" // they hardly wanted to run
	NotDelayed    Cause = "not-delayed"  // they ran nearly always when they wanted to
	ByQuota       Cause = "throttled"    // the limit is too low for their average need
	ByBursts      Cause = "bursts"       // throttled, although they need less than the limit on average
	ByParallelism Cause = "parallelism"  // throttled, and many more threads want to run at a time than the limit has CPUs
	ByNeighbours  Cause = "neighbours"   // waited behind others
	ByOwnThreads  Cause = "own-threads"  // waited behind each other
	ByMachine     Cause = "machine"      // interrupts or the hypervisor used their CPU
)

// Thresholds of a verdict.
const (
	fewRunnable = 0.001 // of a CPU
	fewDelays   = 0.05  // of the time in which threads wanted to run
	nearLimit   = 0.75  // of the limit
	// Threads that want to run at a time, per CPU of the limit: too many if the limit is used up on
	// average, and too many to be helped by burst.
	tooParallel, farTooParallel = 2, 8
)

// Verdict is the main cause of delays, with the figures that show it.
type Verdict struct {
	Cause Cause
	// Share is the part of the time in which threads wanted to run that the cause accounts for.
	Share quantity.Share
	// Usage is the CPU time that they used, on average.
	Usage quantity.CPUs
	// Parallel is how many threads wanted to run at a time, on average while any did.
	Parallel float64
	// Neighbour is the group that they waited behind most, if they waited for others.
	Neighbour Occupant
}

// Verdict returns the main reason for the delays of a group's threads that were observed for a
// time. limit is the group's limit in CPUs, 0 for none.
func (s *Sum) Verdict(own Group, observed time.Duration, limit quantity.CPUs) Verdict {
	v := Verdict{Cause: NotRunnable, Usage: quantity.CPUs(s.Running) / quantity.CPUs(max(1, observed))}
	runnable := s.Runnable()
	v.Parallel = float64(runnable) / float64(max(1, s.Active))
	if quantity.CPUs(runnable) < fewRunnable*quantity.CPUs(observed) {
		return v
	}
	share := func(d time.Duration) quantity.Share { return quantity.Share(d) / quantity.Share(runnable) }
	v.Cause, v.Share = NotDelayed, share(s.Running)
	switch most := max(s.Throttled, s.Others, s.Own, s.Stolen); {
	case share(runnable-s.Running) < fewDelays || share(most) < fewDelays/2:
	case most == s.Throttled:
		v.Cause, v.Share = throttledBy(v, limit), share(most)
	case most == s.Others:
		v.Cause, v.Share = ByNeighbours, share(most)
		v.Neighbour = s.neighbour(own)
	case most == s.Own:
		v.Cause, v.Share = ByOwnThreads, share(most)
	default:
		v.Cause, v.Share = ByMachine, share(most)
	}
	return v
}

func throttledBy(v Verdict, limit quantity.CPUs) Cause {
	parallel := quantity.CPUs(v.Parallel) / max(1, limit)
	switch near := v.Usage > nearLimit*limit; {
	case parallel > farTooParallel, near && parallel > tooParallel:
		return ByParallelism
	case near:
		return ByQuota
	}
	return ByBursts
}

// neighbour returns the group that a group waited behind most, and its process that matters most.
func (p Parts) neighbour(own Group) Occupant {
	others := slices.DeleteFunc(p.Ranked(), func(by Occupant) bool { return by.Group == own || by.Process <= 0 })
	if len(others) == 0 {
		return Occupant{}
	}
	groups := map[Group]time.Duration{}
	for _, by := range others {
		groups[by.Group] += p.Behind[by]
	}
	return slices.MaxFunc(others, func(x, y Occupant) int { return cmp.Compare(groups[x.Group], groups[y.Group]) }) // the first of several
}
