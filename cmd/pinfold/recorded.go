package main

import (
	"fmt"
	"math"
	"slices"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
)

// recorded is the demand of one recorded group.
type recorded struct {
	groupID
	limit        float64 // CPUs that it was recorded under, 0 for none
	limitChanges int
	mean         float64 // CPUs
	trace.Demand
}

// samples returns the demand in multiples of a quota in CPUs.
func (r *recorded) samples(quota float64) []float64 {
	samples := slices.Clone(r.CPUs)
	for i := range samples {
		samples[i] /= quota
	}
	return samples
}

// fewPeriods is below what a figure about rare periods can rest on.
const fewPeriods = 1000

// doubts are sentences about what the recording does not show.
func (r *recorded) doubts() []string {
	var out []string
	add := func(format string, args ...any) {
		out = append(out, fmt.Sprintf("%s: ", r.what())+fmt.Sprintf(format, args...))
	}
	if n := len(r.CPUs); n < fewPeriods {
		add("only %d periods of %v were recorded: what happens less often than once in %d of them is not known; record for longer", n, r.Period, n)
	}
	if r.Averaged > 0 {
		add("%s of the periods are averages over late samples, which hide how high single ones were", quantity.Share(r.Averaged))
	}
	if r.Throttled > 0 {
		add("it was throttled in samples that are %s of the time: %s of its usage was moved to where it was wanted", quantity.Share(r.Throttled), quantity.Share(r.Moved))
	}
	if r.Open > 0 {
		add("throttling did not end %d times (%s of the time): how much more was wanted there is not known, so the result is too good; record without a limit",
			r.Open, quantity.Share(r.OpenShare))
	}
	return out
}

// deviation is the standard deviation, in CPUs.
func (r *recorded) deviation() float64 {
	squares := 0.0
	for _, x := range r.CPUs {
		squares += (x - r.mean) * (x - r.mean)
	}
	return math.Sqrt(squares / float64(len(r.CPUs)))
}

// most is the largest, in CPUs.
func (r *recorded) most() float64 { return slices.Max(r.CPUs) }

// tooMuch is the error for a quota that is not above the mean.
func (r *recorded) tooMuch(quota float64, advice string) error {
	return fmt.Errorf("%s wants %s CPUs on average, %s of a quota of %s CPUs: %s", r.what(), cpus(r.mean), quantity.Share(r.mean/quota), cpus(quota),
		unstable(r.mean/quota, advice))
}
