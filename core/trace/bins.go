package trace

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// bin is the CPU time used in consecutive samples. Its value is divided by its real duration:
// nothing is interpolated.
type bin struct{ usage, length time.Duration }

func (b bin) cpus() float64 { return float64(b.usage) / float64(b.length) }

// periods returns how many periods the bin covers, rounded, but at least 1.
func (b bin) periods(period time.Duration) int { return max(1, int((b.length+period/2)/period)) }

// binsOf divides sequences into bins of one period. A bin is complete when its samples together
// lasted one period, less half the nominal sampling interval. If samples are as long as a period or
// longer, each sample is a bin. A bin does not span a gap; one that a gap or the end cuts short is
// omitted.
func binsOf(sequences [][]Sample, period, nominal time.Duration) []bin {
	var bins []bin
	for _, sequence := range sequences {
		var b bin
		for i := range sequence {
			b.usage += sequence[i].Usage
			b.length += sequence[i].Interval
			if b.length >= period-nominal/2 && b.length > 0 {
				bins = append(bins, b)
				b = bin{}
			}
		}
	}
	return bins
}

// statsOf returns the statistics of bins, except for the mean. It sorts the bins.
func statsOf(bins []bin) Stats {
	if len(bins) == 0 {
		return Stats{}
	}
	slices.SortFunc(bins, func(a, b bin) int { return cmp.Compare(a.cpus(), b.cpus()) })
	var all bin
	for _, b := range bins {
		all.usage += b.usage
		all.length += b.length
	}
	mean, variance := all.cpus(), 0.0
	for _, b := range bins {
		d := b.cpus() - mean
		variance += d * d * float64(b.length) / float64(all.length)
	}
	return Stats{
		Bins: len(bins),
		SD:   math.Sqrt(variance),
		P95:  quantile(bins, all.length, 95),
		P99:  quantile(bins, all.length, 99),
		Max:  bins[len(bins)-1].cpus(),
	}
}

// quantile returns the smallest value such that the bins up to it last at least percent of the
// total time. The bins are in ascending order.
func quantile(bins []bin, total time.Duration, percent time.Duration) float64 {
	need := total/100*percent + (total%100*percent+99)/100 // rounded up, without overflow
	var upTo time.Duration
	for _, b := range bins {
		if upTo += b.length; upTo >= need {
			return b.cpus()
		}
	}
	return bins[len(bins)-1].cpus()
}

const (
	// maxBin is the number of periods beyond which their average is useless as the value of each.
	maxBin = 1000
	// Demand rejects recordings with more than maxAveraged averaged periods if these are also more
	// than averagedTimes as many as the bins: such a small file would need a lot of memory.
	maxAveraged   = 1_000_000
	averagedTimes = 10
)

// PerPeriod returns the CPUs used in each bin of one period, which must be > 0, in the order of
// time. A bin that lasted several periods is repeated that many times,
// with its average; a bin of more than 1,000 periods is omitted. Gaps are not marked. If samples
// are longer than the period, all bins are averages and hide the peaks of single periods.
func (s *Series) PerPeriod(nominal, period time.Duration) []float64 {
	return perPeriod(binsOf(s.Contiguous(nominal), period, nominal), period)
}

func perPeriod(bins []bin, period time.Duration) (all []float64) {
	for _, b := range bins {
		if periods := b.periods(period); periods <= maxBin {
			all = append(all, slices.Repeat([]float64{b.cpus()}, periods)...)
		}
	}
	return all
}

// averagedPeriods returns the number of periods whose value is an average over several.
func averagedPeriods(bins []bin, period time.Duration) (n int) {
	for _, b := range bins {
		if periods := b.periods(period); periods > 1 && periods <= maxBin {
			n += periods
		}
	}
	return n
}
