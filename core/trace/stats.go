package trace

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// bin is the CPU time used in a run of samples.
type bin struct{ usage, length time.Duration }

func (b bin) cpus() float64 { return float64(b.usage) / float64(b.length) }

// binsOf divides runs of samples into bins of one period; see the package comment.
func binsOf(runs [][]Sample, period, nominal time.Duration) []bin {
	var bins []bin
	for _, run := range runs {
		var b bin
		for i := range run {
			b.usage += run[i].Usage
			b.length += run[i].Interval
			if b.length >= period-nominal/2 && b.length > 0 {
				bins = append(bins, b)
				b = bin{}
			}
		}
	}
	return bins
}

// statsOf returns the figures of bins, but for the mean. It puts the bins in order.
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

// quantile returns the smallest figure such that bins up to it last at least so many
// hundredths of the whole. The bins are in ascending order.
func quantile(bins []bin, whole time.Duration, hundredths int64) float64 {
	need := share(whole, hundredths)
	var upTo time.Duration
	for _, b := range bins {
		if upTo += b.length; upTo >= need {
			return b.cpus()
		}
	}
	return bins[len(bins)-1].cpus()
}

// share returns so many hundredths of a time, rounded up, and without overflow.
func share(t time.Duration, hundredths int64) time.Duration {
	return t/100*time.Duration(hundredths) + (t%100*time.Duration(hundredths)+99)/100
}
