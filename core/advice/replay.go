package advice

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/stat"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
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

// throttled replays demand in recorded order through [bandwidth.NextDebt], which equals the
// kernel's controller to the nanosecond, except for the kernel's slices and ticks (TestReplay in
// test/kernel measures what these cost). It returns the number of throttled periods, or a smaller
// one that is more than most.
func (a amounts) throttled(quota, burst, most int64) int {
	var debt, n int64
	for len(a) > 0 && n <= most {
		chunk := a[:min(1024, len(a))]
		a = a[len(chunk):]
		for _, d := range chunk {
			debt = bandwidth.NextDebt(debt, d, quota)
			n += int64(uint64(burst-debt) >> 63)
		}
	}
	return int(n)
}

// at returns the demands at positions, which count from 1.
func (a amounts) at(positions []int) amounts {
	chosen := make(amounts, len(positions))
	for i, at := range positions {
		chosen[i] = a[at-1]
	}
	return chosen
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

// phases are the same demand in periods that begin at different times. The kernel draws the phase
// of a group's periods at random when it makes the group, and keeps it. For load that works in step
// with the periods, such as with a timer of 100 ms, the share of throttled periods depends on it:
// work in the middle of one period counts there as a whole, and work across the border of two is
// halved. Measured with such a load, one limit throttled 0.5% to 2.1%, as the replay at the same
// phase predicts (test/kernel/results.md). So limits are right on average over the phases that the
// samples show ([SampleInterval]).
type phases []amounts

func phasesOf(d *trace.Demand) phases {
	var p phases
	for _, cpus := range d.Phases {
		p = append(p, amountsOf(cpus, d.Period))
	}
	return p
}

// halves returns the first and the second half of the recording.
func (p phases) halves() (first, second phases) {
	for _, a := range p {
		half := len(a) / 2
		first, second = append(first, a[:half]), append(second, a[half:])
	}
	return first, second
}

// throttleRatio returns the share of throttled periods, on average over the phases. It counts
// periods of wall-clock time, not those in which the kernel's timer ran.
func (p phases) throttleRatio(quota, burst int64) float64 {
	return p.throttleRatioUpTo(quota, burst, 1)
}

// throttleRatioUpTo is throttleRatio, or a smaller number that is more than most.
func (p phases) throttleRatioUpTo(quota, burst int64, most float64) float64 {
	throttled, all := 0, 0
	for _, a := range p {
		all += len(a)
	}
	enough := int64(most*float64(all)) + 1
	for _, a := range p {
		throttled += a.throttled(quota, burst, enough-int64(throttled))
	}
	return float64(throttled) / float64(all)
}

// delay returns how late work is in throttled periods.
func (p phases) delay(quota, burst int64, period time.Duration) (d Delay) {
	var late []float64
	for _, a := range p {
		var debt int64
		for _, wanted := range a {
			if debt = bandwidth.NextDebt(debt, wanted, quota); debt > burst {
				late = append(late, float64(debt-burst)/float64(quota))
			}
		}
	}
	if len(late) == 0 {
		return d
	}
	slices.Sort(late)
	of := func(periods float64) quantity.Seconds {
		return quantity.Seconds{Duration: time.Duration(min(periods*float64(period), float64(trace.MaxTime)))}
	}
	d.Mean, d.Longest = of(stat.Mean(late, nil)), of(late[len(late)-1])
	if beyond := len(late) / 100; beyond >= 10*len(p) { // phases show the same events
		p99 := of(late[len(late)-1-beyond])
		d.P99 = &p99
	}
	return d
}

// smallestLimit returns the smallest limit, in steps, that throttles at most a share of the
// periods, with a burst in multiples of the quota. It bisects, because a higher limit never
// throttles an additional period. The kernel's minimum quota is a millisecond.
func (p phases) smallestLimit(period time.Duration, burst, ratio float64) int {
	largest := int64(0)
	for _, a := range p {
		largest = max(largest, slices.Max(a))
	}
	step := int64(period) / limitSteps
	first := int((int64(time.Millisecond) + step - 1) / step)
	last := max(first, int((largest+step-1)/step))
	return first + sort.Search(last-first, func(i int) bool {
		quota := int64(first+i) * step
		return p.throttleRatioUpTo(quota, int64(burst*float64(quota)), ratio) <= ratio
	})
}

// byBurst is the number of throttled periods with each burst up to maxBurst percent.
type byBurst struct {
	periods   int
	throttled [maxBurst + 1]int
}

// bursts counts the throttled periods for all bursts in one pass.
func (p phases) bursts(quota int64) byBurst {
	var b byBurst
	for _, a := range p {
		b.add(a, quota)
	}
	for i := maxBurst - 1; i >= 0; i-- {
		b.throttled[i] += b.throttled[i+1]
	}
	return b
}

// add counts for each burst the periods that it would have saved from throttling.
func (b *byBurst) add(a amounts, quota int64) {
	b.periods += len(a)
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

// bootstrap returns confidence intervals of statistics. It computes them for recordings that are
// assembled from random pieces of this one, beside one phase of another such recording
// ([demand.Blocks]: the stationary bootstrap of Politis and Romano, 1994). A piece must be longer
// than the correlation time of the demand ([demand.BlockLength]).
func (p phases) bootstrap(ctx context.Context, pieces *demand.Blocks, options Options, statistics func(p phases, another amounts) []float64) ([]interval, error) {
	periods := len(p[0])
	times := min(resamples, max(minResamples, resampledPeriods/periods/len(p)))
	found := make([][]float64, times)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(options.Workers, times) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(times) && ctx.Err() == nil; i = next.Add(1) - 1 {
				var drawn phases
				positions := draw(pieces, periods, options.Random(uint64(i)))
				for _, a := range p {
					drawn = append(drawn, a.at(positions))
				}
				positions = draw(pieces, periods, options.Random(uint64(times)+uint64(i)))
				found[i] = statistics(drawn, p[i%int64(len(p))].at(positions))
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("resample a recording of %d periods: %w", periods, err)
	}
	return intervals(found), nil
}

// pieces returns random pieces of the periods that all phases have, as positions that count from 1.
// It is nil if a phase has no demand.
func (p phases) pieces(piece float64) *demand.Blocks {
	shortest := len(p[0])
	for _, a := range p {
		shortest = min(shortest, len(a))
		if slices.Max(a) == 0 {
			return nil
		}
	}
	positions := make([]float64, shortest)
	for i := range positions {
		positions[i] = float64(i + 1)
	}
	blocks, err := demand.NewBlocks(min(piece, float64(shortest)), positions)
	if err != nil {
		return nil
	}
	return blocks
}

func draw(pieces *demand.Blocks, periods int, r *rand.Rand) []int {
	positions := make([]int, periods)
	source := pieces.Start(r)
	for i := range positions {
		positions[i] = int(source.Next(r))
	}
	return positions
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
