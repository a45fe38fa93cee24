package advice

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/demand"
)

// Limits are multiples of 1/limitSteps CPUs.
const limitSteps = 100

// maxBurst is the largest burst in curves, in percent of the quota.
const maxBurst = 400

// amounts are the demands of consecutive periods, in nanoseconds of CPU time.
type amounts []int64

// amountsOf converts CPUs to CPU time per period. It limits absurd values, so that no sum
// overflows.
func amountsOf(cpus []float64, period time.Duration) amounts {
	maxAmount := float64(int64(1) << 62 / int64(max(1, len(cpus))))
	a := make(amounts, len(cpus))
	for i, c := range cpus {
		a[i] = int64(min(math.Round(c*float64(period)), maxAmount))
	}
	return a
}

// throttled returns the number of throttled periods.
func (a amounts) throttled(quota, burst int64) int {
	var debt, n int64
	for _, d := range a {
		debt = bandwidth.NextDebt(debt, d, quota)
		n += int64(uint64(burst-debt) >> 63)
	}
	return int(n)
}

// longestRun returns the number of throttled periods, and the length of their longest run.
func (a amounts) longestRun(quota, burst int64) (all, longest int) {
	var debt int64
	run := 0
	for _, d := range a {
		if debt = bandwidth.NextDebt(debt, d, quota); debt <= burst {
			run = 0
			continue
		}
		all++
		run++
		longest = max(longest, run)
	}
	return all, longest
}

// throttleRatio returns the share of throttled periods.
func (a amounts) throttleRatio(quota, burst int64) float64 {
	return float64(a.throttled(quota, burst)) / float64(len(a))
}

// smallestLimit returns the smallest limit, in steps, that throttles at most a share of the
// periods, with a burst in multiples of the quota. The kernel's minimum quota is a millisecond.
func (a amounts) smallestLimit(period time.Duration, burst, ratio float64) int {
	largest := max(0, slices.Max(a))
	step := int64(period) / limitSteps
	first := int((int64(time.Millisecond) + step - 1) / step)
	last := max(first, int((largest+step-1)/step))
	return first + sort.Search(last-first, func(i int) bool {
		quota := int64(first+i) * step
		return a.throttleRatio(quota, int64(burst*float64(quota))) <= ratio
	})
}

// byBurst is the number of throttled periods with each burst up to maxBurst percent.
type byBurst struct {
	periods   int
	throttled [maxBurst + 1]int
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
		enough := int64(maxBurst + 1) // percent
		if debt <= quota*maxBurst/100 {
			enough = (100*debt + quota - 1) / quota
		}
		b.throttled[enough-1]++
	}
	for i := maxBurst - 1; i >= 0; i-- {
		b.throttled[i] += b.throttled[i+1]
	}
	return b
}

// ratio returns the throttle ratio with a burst in percent.
func (b *byBurst) ratio(percent int) float64 {
	return float64(b.throttled[percent]) / float64(b.periods)
}

// worthHaving returns the smallest burst in percent, up to the kernel's 100, that reaches a
// throttle ratio. If none does, it returns the smallest one whose throttle ratio is at most a tenth
// of the wanted one above that of 100%.
func (b *byBurst) worthHaving(ratio float64) int {
	enough := ratio
	if b.ratio(100) > ratio {
		enough = b.ratio(100) + ratio/10
	}
	return sort.Search(100, func(percent int) bool { return b.ratio(percent) <= enough })
}

// mean returns the average CPU time per period.
func (a amounts) mean() float64 {
	sum := int64(0)
	for _, d := range a {
		sum += d
	}
	return float64(sum) / float64(len(a))
}

const (
	// resamples is the number of bootstrap recordings; fewer, down to minResamples, if they would
	// have more than resampledPeriods together.
	resamples        = 200
	minResamples     = 40
	resampledPeriods = 16_000_000
)

// interval is a confidence interval.
type interval struct{ low, high float64 }

// bootstrap returns confidence intervals of statistics: it computes them for recordings that are
// assembled from random pieces of this one.
func bootstrap(ctx context.Context, blocks *demand.Blocks, periods int, period time.Duration, options Options, statistics func(amounts) []float64) ([]interval, error) {
	times := min(resamples, max(minResamples, resampledPeriods/periods))
	found := make([][]float64, times)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(options.Workers, times) {
		all.Go(func() {
			cpus := make([]float64, periods)
			for i := next.Add(1) - 1; i < int64(times) && ctx.Err() == nil; i = next.Add(1) - 1 {
				r := options.Random(uint64(i))
				source := blocks.Start(r)
				for j := range cpus {
					cpus[j] = source.Next(r)
				}
				found[i] = statistics(amountsOf(cpus, period))
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("resample a recording of %d periods: %w", periods, err)
	}
	return intervals(found), nil
}

// intervals returns the central share Confidence of each statistic.
func intervals(found [][]float64) []interval {
	result := make([]interval, len(found[0]))
	values := make([]float64, len(found))
	for s := range result {
		for i := range found {
			values[i] = found[i][s]
		}
		slices.Sort(values)
		tail := int(float64(len(values)) * (1 - Confidence) / 2)
		result[s] = interval{values[tail], values[len(values)-1-tail]}
	}
	return result
}
