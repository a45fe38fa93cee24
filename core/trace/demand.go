package trace

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Errors of Series.Demand that callers branch on.
var (
	// ErrTooCoarse means that samples are longer than the period, so that single periods
	// cannot be known.
	ErrTooCoarse = errors.New("samples are longer than the period")
	// ErrTooShort means that there is not one whole period.
	ErrTooShort = errors.New("no whole period was recorded")
)

// Demand is the estimated demand of a group in each period; see [Series.Demand].
type Demand struct {
	Period    time.Duration
	CPUs      []float64 // wanted in each period, in the order of time; at least one
	Averaged  float64   // share of the periods whose figure is an average over several (late samples)
	Throttled float64   // share of the time that lies in throttled samples
	Moved     float64   // share of the usage that was moved to an earlier period
	Open      int       // runs of throttling that no period with room ended: what was wanted there is not known
	OpenShare float64   // share of the time that lies in those runs
}

// Demand returns the estimated demand in CPUs for each bin of one period, which must be > 0. It is
// PerPeriod of the series after correction of throttled runs; see the package comment. Without
// throttling, demand equals usage. The errors are ErrTooCoarse and ErrTooShort.
func (s *Series) Demand(nominal, period time.Duration) (Demand, error) {
	if nominal > period {
		return Demand{}, fmt.Errorf("demand per %v of samples of %v: %w; record with an interval of %v or less, or ask for a longer period",
			period, nominal, ErrTooCoarse, period)
	}
	d := Demand{Period: period}
	wanted := Series{Samples: slices.Clone(s.Samples)}
	segments := wanted.Segments(nominal)
	var whole, throttled, open time.Duration
	for _, segment := range segments {
		for i := range segment {
			whole += segment[i].Interval
			if segment[i].WasThrottled() {
				throttled += segment[i].Interval
			}
		}
	}
	r := newRecovery(segments, nominal)
	d.Open, open = r.open()
	r.move()
	bins := binsOf(segments, period, nominal)
	if n := averagedPeriods(bins, period); n > mostAveraged && n > averagedTimes*len(bins) {
		return Demand{}, fmt.Errorf("demand per %v: %d of the periods lie in %d samples or fewer, late ones: %w; record with less load on the machine",
			period, n, len(bins), ErrTooCoarse)
	}
	d.CPUs, d.Averaged = perPeriod(bins, period)
	if len(d.CPUs) == 0 {
		return Demand{}, fmt.Errorf("demand per %v: %w; record for longer", period, ErrTooShort)
	}
	d.Throttled = ratio(float64(throttled), float64(whole))
	d.OpenShare = ratio(float64(open), float64(whole))
	d.Moved = moved(binsOf(s.Segments(nominal), period, nominal), bins)
	return d, nil
}

// moved returns which share of the usage lies in an earlier bin now.
func moved(before, after []bin) float64 {
	var more, all time.Duration
	for i := range before {
		all += before[i].usage
		more += max(0, after[i].usage-before[i].usage)
	}
	return ratio(float64(more), float64(all))
}
