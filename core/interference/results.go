package interference

import (
	"fmt"
	"math"
)

// Estimate is a mean with its standard error.
type Estimate struct {
	Value         float64 `json:"value"`
	StandardError float64 `json:"standardError"`
}

// Result is the outcome of a simulation.
type Result struct {
	Rule         Rule
	Periods      int64 // counted in all replicas, without the warm-up
	Misses       int64 // periods that missed their deadline
	ExpectedWCET Estimate
	// ProbabilityWCET1 is the share of periods with a WCET of 1: the capacity sufficed for what was
	// submitted (see [Rule]). What quotas and tokens do not let through is not submitted, so this may be 1 while
	// groups are throttled most of the time.
	ProbabilityWCET1 Estimate
	// Busy is the share of busy periods; see [Config].
	Busy Estimate
	// WCET[w] is the number of periods with a WCET of w. The last entry, if it is WCET[MaxWCET],
	// includes longer ones.
	WCET []int64
	// Groups are in the order of the configuration.
	Groups []GroupResult
	// Warnings are sentences about the limits of the result.
	Warnings []string
}

// Safe is the P(WCET = 1) from which burst is called safe for the neighbours, if users do not say
// what they want.
const Safe = 0.99

// MaxWCET is the longest WCET that is counted separately.
const MaxWCET = 4096

// GroupResult is the mean over the groups of one kind. Amounts are in multiples of their quota, per
// period.
type GroupResult struct {
	Demand        Estimate // drawn
	ThrottleRatio Estimate // share of periods in which need exceeds quota plus tokens
	Backlog       Estimate // carried over to the next period
	BurstUse      Estimate // used beyond the quota
}

// batch is what one replica counted.
type batch struct {
	periods, misses int64
	wcet            float64 // sum over periods
	histogram       []int64
	groups          []sums
}

// run counts the WCETs of a run of missed periods that a met deadline ends. Of its length, only the
// first counted periods are part of the result.
func (b *batch) run(length, counted int64) {
	for w := length + 1; counted > 0; w, counted = w-1, counted-1 {
		b.wcet += float64(w)
		bin := min(w, MaxWCET)
		for int64(len(b.histogram)) <= bin {
			b.histogram = append(b.histogram, 0)
		}
		b.histogram[bin]++
	}
}

// estimate computes a mean from one value per replica. Replicas are independent and equally long,
// so the standard error is that of their mean, regardless of correlation within a replica (method
// of batch means).
func estimate(batches []batch, value func(batch) float64) Estimate {
	n, mean := float64(len(batches)), 0.0
	for _, b := range batches {
		mean += value(b) / n
	}
	squares := 0.0
	for _, b := range batches {
		squares += (value(b) - mean) * (value(b) - mean)
	}
	return Estimate{mean, math.Sqrt(squares / (n - 1) / n)}
}

// summarise combines the batches of all replicas.
func summarise(c *plan, batches []batch) *Result {
	r := &Result{Rule: c.rule, WCET: make([]int64, 2)}
	for _, b := range batches {
		r.Periods += b.periods
		r.Misses += b.misses
		for w, n := range b.histogram {
			for len(r.WCET) <= w {
				r.WCET = append(r.WCET, 0)
			}
			r.WCET[w] += n
		}
	}
	r.WCET[1] += r.Periods - r.Misses
	r.ExpectedWCET = estimate(batches, func(b batch) float64 {
		return (b.wcet + float64(b.periods-b.misses)) / float64(b.periods)
	})
	r.ProbabilityWCET1 = estimate(batches, func(b batch) float64 {
		return 1 - float64(b.misses)/float64(b.periods)
	})
	r.Busy = estimate(batches, func(b batch) float64 { return float64(b.groups[0].busy) / float64(b.periods) })
	for i, k := range c.kinds {
		r.Groups = append(r.Groups, summariseGroup(k, batches, i))
	}
	return r
}

func summariseGroup(k planKind, batches []batch, i int) GroupResult {
	mean := func(unit float64, value func(sums) float64) Estimate {
		return estimate(batches, func(b batch) float64 {
			return value(b.groups[i]) / unit / float64(b.periods) / float64(k.count)
		})
	}
	quota := float64(k.quota)
	return GroupResult{
		Demand:        mean(quota, func(s sums) float64 { return s.demand }),
		ThrottleRatio: mean(1, func(s sums) float64 { return float64(s.throttled) }),
		Backlog:       mean(quota, func(s sums) float64 { return s.backlog }),
		BurstUse:      mean(quota, func(s sums) float64 { return s.burst }),
	}
}

const (
	// meanErrors is the number of standard errors by which the mean of the draws may differ.
	meanErrors = 8
	// tooWide is the largest acceptable relative standard error of a probability.
	tooWide = 0.1
)

// checkMeans returns an error if the drawn demand does not have the configured mean, so that a
// broken demand cannot pass as a good result.
func (r *Result) checkMeans(c *plan) error {
	for i, k := range c.kinds {
		got := r.Groups[i].Demand
		if off := math.Abs(got.Value - k.mean); !(off <= meanErrors*got.StandardError+1e-6*k.mean+1/float64(k.quota)) {
			return fmt.Errorf("the demands of groups %d have a mean of %.6g (standard error %.2g) where %.6g was asked: "+
				"either they do not come from that distribution, or its tail is too heavy or its memory too long for %d periods",
				i, got.Value, got.StandardError, k.mean, r.Periods)
		}
	}
	return nil
}

// warn adds the warnings.
func (r *Result) warn(c *plan) {
	warn := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	missed, e := float64(r.Misses)/float64(r.Periods), r.ProbabilityWCET1.StandardError
	switch {
	case !c.canMiss(): // the result is exact
	case r.Misses == 0:
		warn("no deadline was missed in %d periods: P(WCET > 1) is below about %.2g; more periods would say more", r.Periods, 3/float64(r.Periods))
	case e > tooWide*missed:
		more := e / (tooWide * missed)
		periods := float64(r.Periods) * more * more
		digit := math.Pow(10, math.Floor(math.Log10(periods)))
		warn("P(WCET > 1) is %.2g with a standard error of %.2g, too wide to conclude; take about %.1g periods",
			missed, e, math.Ceil(periods/digit)*digit)
	}
	if c.precision > 0 && !r.reached(c) {
		warn("the wanted standard error of %.2g was not reached in %d periods: E[WCET] has %.2g, P(WCET = 1) has %.2g",
			c.precision, r.Periods, r.ExpectedWCET.StandardError, e)
	}
	if c.warmUp < c.wantedWarmUp {
		warn("for this load and demand, %d periods of warm-up a replica are too few (%.2g would do), so the result is too good; take %.1g periods or more",
			c.warmUp, float64(c.wantedWarmUp), Replicas*float64(c.wantedWarmUp))
	}
}

// reached reports whether both standard errors are small enough. Without any miss they are 0, which
// says nothing unless a miss is impossible.
func (r *Result) reached(c *plan) bool {
	switch {
	case !c.canMiss():
		return true
	case r.Misses == 0:
		return 3/float64(r.Periods) <= c.precision
	}
	return max(r.ExpectedWCET.StandardError, r.ProbabilityWCET1.StandardError) <= c.precision
}
