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

// Verdict is why threads were delayed, with the figures that show it.
type Verdict struct {
	// Reasons are the main ones, one or two, the one with the larger share first. NotRunnable and
	// NotDelayed are alone.
	Reasons []Reason
	// Usage is the CPU time that they used, on average.
	Usage quantity.CPUs
	// Parallel is how many threads wanted to run at a time, on average while any did.
	Parallel float64
}

// Reason is a cause of delays, and the part of the time in which threads wanted to run that it
// accounts for. That of NotDelayed is the part in which they ran.
type Reason struct {
	Cause Cause
	Share quantity.Share
	// Others and Own are the parts of Share in which they waited behind others and each other. Cause
	// is the larger.
	Others, Own quantity.Share
}

// Has reports whether a cause is among the reasons.
func (v *Verdict) Has(c Cause) bool {
	return slices.ContainsFunc(v.Reasons, func(r Reason) bool { return r.Cause == c })
}

// Verdict returns why a group's threads that were observed for a time were delayed. limit is the
// group's limit in CPUs, 0 for none.
func (s *Sum) Verdict(observed time.Duration, limit quantity.CPUs) Verdict {
	runnable := s.Runnable()
	v := Verdict{Usage: quantity.CPUs(s.Running) / quantity.CPUs(max(1, observed)),
		Parallel: float64(runnable) / float64(max(1, s.Active))}
	share := func(d time.Duration) quantity.Share { return quantity.Share(d) / quantity.Share(max(1, runnable)) }
	waiting := Reason{Cause: ByNeighbours, Others: share(s.Others - s.Behind[unseen]), Own: share(s.Own)}
	if waiting.Share = waiting.Others + waiting.Own; waiting.Own > waiting.Others {
		waiting.Cause = ByOwnThreads
	}
	all := []Reason{{Cause: throttledBy(v, limit), Share: share(s.Throttled)}, waiting, {Cause: ByMachine, Share: share(s.Stolen)}}
	slices.SortStableFunc(all, func(x, y Reason) int { return cmp.Compare(y.Share, x.Share) })
	switch {
	case quantity.CPUs(runnable) < fewRunnable*quantity.CPUs(observed):
		v.Reasons = []Reason{{Cause: NotRunnable, Share: 1}}
	case share(runnable-s.Running) < fewDelays || all[0].Share < fewDelays/2:
		v.Reasons = []Reason{{Cause: NotDelayed, Share: share(s.Running)}}
	case all[1].Share < fewDelays:
		v.Reasons = all[:1]
	default:
		v.Reasons = all[:2]
	}
	return v
}

func throttledBy(v Verdict, limit quantity.CPUs) Cause {
	if limit == 0 {
		return ByQuota // of a group above
	}
	parallel := quantity.CPUs(v.Parallel) / max(1, limit)
	switch near := v.Usage > nearLimit*limit; {
	case parallel > farTooParallel, near && parallel > tooParallel:
		return ByParallelism
	case near:
		return ByQuota
	}
	return ByBursts
}
