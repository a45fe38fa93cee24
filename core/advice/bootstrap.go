package advice

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"pinfold.dev/pinfold/core/demand"
)

const (
	// resamples is how many other recordings are made up; fewer, down to leastResamples,
	// when they would have more than resampledPeriods together.
	resamples        = 200
	leastResamples   = 40
	resampledPeriods = 16_000_000
)

// interval is a confidence interval.
type interval struct{ low, high float64 }

// bootstrap returns the confidence intervals of statistics: it computes them for recordings
// that are strung together of pieces of this one.
func bootstrap(ctx context.Context, blocks *demand.Blocks, periods int, period time.Duration, options Options, statistics func(amounts) []float64) ([]interval, error) {
	times := min(resamples, max(leastResamples, resampledPeriods/periods))
	found := make([][]float64, times)
	next := make(chan int, times)
	for i := range times {
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	for range min(options.Workers, times) {
		all.Go(func() {
			cpus := make([]float64, periods)
			for i := range next {
				if ctx.Err() != nil {
					return
				}
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
