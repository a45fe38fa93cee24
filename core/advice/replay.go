package advice

import (
	"math"
	"sort"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// limitSteps is in how many steps one CPU is divided: limits are multiples of 10m CPUs.
const limitSteps = 100

// mostBurst is the largest burst that curves show, in percent of the quota.
const mostBurst = 400

// amounts are CPU times in nanoseconds wanted in each of the periods.
type amounts []int64

// amountsOf turns CPUs into CPU times of a period. What no machine has is cut, so that no sum
// overflows.
func amountsOf(cpus []float64, period time.Duration) amounts {
	most := float64(int64(1) << 62 / int64(max(1, len(cpus))))
	a := make(amounts, len(cpus))
	for i, c := range cpus {
		a[i] = int64(min(math.Round(c*float64(period)), most))
	}
	return a
}

// throttled returns how many periods are throttled.
func (a amounts) throttled(quota, burst int64) int {
	var debt, n int64
	for _, d := range a {
		debt = bandwidth.NextDebt(debt, d, quota)
		n += int64(uint64(burst-debt) >> 63)
	}
	return int(n)
}

// longestRow returns how many periods are throttled, and how many of them follow one another at most.
func (a amounts) longestRow(quota, burst int64) (all, longest int) {
	var debt int64
	row := 0
	for _, d := range a {
		if debt = bandwidth.NextDebt(debt, d, quota); debt <= burst {
			row = 0
			continue
		}
		all++
		row++
		longest = max(longest, row)
	}
	return all, longest
}

// throttleRatio returns the share of the periods that are throttled.
func (a amounts) throttleRatio(quota, burst int64) float64 {
	return float64(a.throttled(quota, burst)) / float64(len(a))
}

// smallestLimit returns the smallest limit, in steps, that throttles no more than a share of the
// periods, with a burst in multiples of the quota. The kernel takes no quota below a
// millisecond.
func (a amounts) smallestLimit(period time.Duration, burst, ratio float64) int {
	largest := int64(0)
	for _, d := range a {
		largest = max(largest, d)
	}
	step := int64(period) / limitSteps
	first := int((int64(time.Millisecond) + step - 1) / step)
	last := max(first, int((largest+step-1)/step))
	return first + sort.Search(last-first, func(i int) bool {
		quota := int64(first+i) * step
		return a.throttleRatio(quota, int64(burst*float64(quota))) <= ratio
	})
}

// byBurst says how many periods are throttled with each burst up to mostBurst percent.
type byBurst struct {
	periods   int
	throttled [mostBurst + 1]int
}

// bursts counts the throttled periods for all bursts in one pass.
func (a amounts) bursts(quota int64) byBurst {
	b := byBurst{periods: len(a)}
	var debt int64
	for _, d := range a {
		debt = bandwidth.NextDebt(debt, d, quota)
		if debt == 0 {
			continue
		}
		enough := int64(mostBurst + 1) // percent
		if debt <= quota*mostBurst/100 {
			enough = (100*debt + quota - 1) / quota
		}
		b.throttled[enough-1]++
	}
	for i := mostBurst - 1; i >= 0; i-- {
		b.throttled[i] += b.throttled[i+1]
	}
	return b
}

// ratio returns the throttle ratio with a burst in percent.
func (b *byBurst) ratio(percent int) float64 {
	return float64(b.throttled[percent]) / float64(b.periods)
}

// worthHaving returns the smallest burst in percent, up to the kernel's 100, that reaches a
// throttle ratio; where none does, one that comes within a tenth of it to what 100% reaches.
func (b *byBurst) worthHaving(ratio float64) int {
	enough := ratio
	if b.ratio(100) > ratio {
		enough = b.ratio(100) + ratio/10
	}
	return sort.Search(100, func(percent int) bool { return b.ratio(percent) <= enough })
}

// mean returns the average CPU time of a period.
func (a amounts) mean() float64 {
	sum := int64(0)
	for _, d := range a {
		sum += d
	}
	return float64(sum) / float64(len(a))
}
