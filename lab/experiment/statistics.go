package experiment

import (
	"maps"
	"math"
	"slices"

	"github.com/aclements/go-moremath/stats"
	"golang.org/x/perf/benchmath"
)

// This file has all statistics: what follows from the values of a figure in the rounds.

// byRound has a value for each round with an undisturbed window.
type byRound map[int]float64

// Value is an estimate from several rounds, with an interval that contains the true one with a
// confidence of 95%. Low and High are infinite if there are fewer than [MinRounds].
type Value struct {
	Estimate, Low, High float64
	Rounds              int
}

// Bounded reports whether there were enough rounds for an interval.
func (v Value) Bounded() bool { return !math.IsInf(v.Low, 0) && !math.IsInf(v.High, 0) }

// MinRounds is how many rounds an interval needs. That of a median: all of n values are on one side
// of the true median with a probability of 2/2^n, which is less than 5% from 6 on. That of a mean:
// the values of fewer rounds do not show whether they are spread as Student's t distribution wants.
const MinRounds = 6

// confidence of intervals.
const confidence = 0.95

func (b byRound) sample() *benchmath.Sample {
	return benchmath.NewSample(slices.Collect(maps.Values(b)), &benchmath.DefaultThresholds)
}

// median returns the median, with an interval by order statistics.
func median(values byRound) Value {
	if len(values) == 0 {
		return Value{Estimate: math.NaN(), Low: math.Inf(-1), High: math.Inf(1)}
	}
	s := benchmath.AssumeNothing.Summary(values.sample(), confidence)
	return Value{s.Center, s.Lo, s.Hi, len(values)}
}

// mean returns the mean, with an interval by Student's t distribution, or the median of fewer than
// [MinRounds] values. Nothing is above most. If they are shares of a number of periods, and none of
// these had what is counted, the share is at most 3/periods (rule of three).
func mean(values byRound, most, periods float64) Value {
	if len(values) < MinRounds {
		return median(values)
	}
	s := benchmath.AssumeNormal.Summary(values.sample(), confidence)
	v := Value{s.Center, max(0, s.Lo), min(most, s.Hi), len(values)}
	if v.High == 0 && periods > 0 {
		v.High = 3 / periods
	}
	return v
}

// ratio returns the median of the ratios in rounds that have both values. It has no rounds if a
// value of the baseline is 0.
func ratio(of, base byRound) Value {
	ratios := byRound{}
	for round, value := range of {
		before, ok := base[round]
		if !ok {
			continue
		}
		ratios[round] = value / before
		if math.IsNaN(ratios[round]) || math.IsInf(ratios[round], 0) {
			return Value{}
		}
	}
	return median(ratios)
}

// difference returns the probability of values that differ so much if the conditions do not
// (two-sided Mann-Whitney U test, with the mean rank for equal values), NaN without values. It is
// twice the smaller tail. The library's own two-sided test takes the tails to be symmetric, which
// they are not with equal values in samples of different sizes: its P is then 0 or more than 1.
func difference(of, base byRound) float64 {
	if len(of) == 0 || len(base) == 0 {
		return math.NaN()
	}
	x, y := of.sample().Values, base.sample().Values
	lower, err := stats.MannWhitneyUTest(x, y, stats.LocationLess)
	higher, err2 := stats.MannWhitneyUTest(y, x, stats.LocationLess)
	if err != nil || err2 != nil { // all values are equal
		return 1
	}
	return min(1, 2*min(lower.P, higher.P))
}
