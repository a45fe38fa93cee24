package trace

import (
	"slices"
	"time"
)

const (
	// longestBin is in periods: an average over more says nothing about one.
	longestBin = 1000
	// Of so many periods, averagedTimes as many as there are bins, nothing is known but averages,
	// and they take far more memory than the file that says so.
	mostAveraged  = 1_000_000
	averagedTimes = 10
)

// PerPeriod returns the CPUs used in each bin of one period, which must be > 0, in the order of
// time; see the package comment. A bin that lasted several periods is repeated that many times,
// with its average; a bin of more than 1,000 periods is omitted. Gaps are not marked. If samples
// are longer than the period, all bins are averages and hide the peaks of single periods.
func (s *Series) PerPeriod(nominal, period time.Duration) []float64 {
	all, _ := perPeriod(binsOf(s.Segments(nominal), period, nominal), period)
	return all
}

// perPeriod returns the CPUs of each period of the bins, and the share of the periods whose
// figure is an average.
func perPeriod(bins []bin, period time.Duration) (all []float64, averaged float64) {
	for _, b := range bins {
		periods := b.periods(period)
		if periods > longestBin {
			continue
		}
		if periods > 1 {
			averaged += float64(periods)
		}
		all = append(all, slices.Repeat([]float64{b.cpus()}, periods)...)
	}
	return all, ratio(averaged, float64(len(all)))
}

// averagedPeriods is the number of periods whose figure is an average.
func averagedPeriods(bins []bin, period time.Duration) int {
	n := 0
	for _, b := range bins {
		if periods := b.periods(period); periods > 1 && periods <= longestBin {
			n += periods
		}
	}
	return n
}

// periods is how many the bin lasted.
func (b bin) periods(period time.Duration) int { return max(1, int((b.length+period/2)/period)) }
