package trace

import (
	"encoding/json"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// DefaultPeriod is the kernel's default enforcement period, used for groups with an unknown period.
const DefaultPeriod = 100 * time.Millisecond

// Summary is the statistics of a whole series.
type Summary struct {
	Samples, Late      int
	Raised, TraceEnded int // of the samples; see Sample
	// Gaps counts the interruptions between the first sample and the last.
	Gaps  int
	Time  time.Duration // covered by the samples
	Usage time.Duration // CPU time
	// PerPeriod are statistics over bins of one period.
	PerPeriod Stats

	// Limits are the last known ones; PerPeriod refers to their period. LimitChanges counts the
	// samples whose limits differ from the last ones before.
	Limits       bandwidth.Limits
	LimitChanges int
	// Unknown are the figures that no sample has or, except for limits, that some lack. A group
	// that was throttled had a limit, so it is not known if none was recorded.
	Unknown Figures

	Periods, Throttled, Bursts uint64 // as in Sample
	ThrottledTime, BurstTime   time.Duration
	// WallPeriods is the number of periods that passed while there was a quota, whether or not the
	// bandwidth timer ran: time divided by period, but at least Periods, which may be one more. Time
	// of which the limit is unknown counts.
	WallPeriods float64
	// ThrottledShare is the share of Time in throttled samples, whose usage may be less than the
	// demand.
	ThrottledShare float64
}

// Stats are statistics over bins of time, in CPUs, weighted by their duration: a late sample that
// covers five periods counts five times, with its average, which may hide a higher peak. A quantile
// q is the smallest value such that the bins up to it last at least q of the total time. Without
// any complete bin, all except Mean are unknown, and 0.
type Stats struct {
	Bins int     `json:"periods"`
	Mean float64 `json:"mean"` // of all samples, also those in no bin
	SD   float64 `json:"sd"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// MarshalJSON leaves out what is unknown.
func (s Stats) MarshalJSON() ([]byte, error) {
	if s.Bins == 0 {
		return json.Marshal(map[string]float64{"periods": 0, "mean": s.Mean})
	}
	type known Stats
	return json.Marshal(known(s))
}

// CPUs returns the average usage in CPUs, or 0 for an empty series.
func (s *Summary) CPUs() float64 { return ratio(float64(s.Usage), float64(s.Time)) }

// ThrottledOfTimer returns the throttled share of the periods in which the bandwidth timer ran:
// nr_throttled/nr_periods, the usual figure. The timer stops for idle groups. The result is at most
// 1, although the kernel may count a throttled period just before the timer's.
func (s *Summary) ThrottledOfTimer() float64 {
	return min(1, ratio(float64(s.Throttled), float64(s.Periods)))
}

// ThrottledOfWall returns the throttled share of all periods that passed while there was a quota;
// at most 1.
func (s *Summary) ThrottledOfWall() float64 {
	return min(1, ratio(float64(s.Throttled), s.WallPeriods))
}

func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

// Summarise returns the statistics of a series recorded at a nominal interval.
func Summarise(s *Series, nominal time.Duration) Summary {
	sum := Summary{Samples: len(s.Samples), Limits: bandwidth.Limits{Quota: bandwidth.Unlimited}}
	var throttled time.Duration
	limited, known := false, false
	for i := range s.Samples {
		sample := &s.Samples[i]
		sum.add(sample)
		if sample.WasThrottled() {
			throttled += sample.Interval
		}
		if sample.Unknown.Has(Limits) {
			if !known {
				sum.Limits = sample.Limits // the period may be known
			}
			continue
		}
		if known && sample.Limits != sum.Limits {
			sum.LimitChanges++
		}
		sum.Limits, known = sample.Limits, true
		limited = limited || sample.Limits.Quota != bandwidth.Unlimited
	}
	if sum.Unknown &^= Limits; !known || !limited && sum.Throttled > 0 {
		sum.Unknown |= Limits
		sum.WallPeriods = ratio(float64(sum.Time), float64(PeriodOf(sum.Limits)))
	}
	if sum.WallPeriods > 0 {
		sum.WallPeriods = max(sum.WallPeriods, float64(sum.Periods))
	}
	sum.ThrottledShare = ratio(float64(throttled), float64(sum.Time))
	if len(s.Samples) == 0 {
		return sum
	}
	runs := s.Contiguous(nominal)
	sum.Gaps = len(runs) - 1
	sum.PerPeriod = statsOf(binsOf(runs, PeriodOf(sum.Limits), nominal))
	sum.PerPeriod.Mean = sum.CPUs()
	return sum
}

func (s *Summary) add(sample *Sample) {
	s.Time += sample.Interval
	s.Usage += sample.Usage
	s.Late += count(sample.Late)
	s.Raised += count(sample.Raised)
	s.TraceEnded += count(sample.TraceEnded)
	s.Periods += uint64(sample.Periods)
	s.Throttled += uint64(sample.Throttled)
	s.Bursts += uint64(sample.Bursts)
	s.ThrottledTime += sample.ThrottledTime
	s.BurstTime += sample.BurstTime
	s.Unknown |= sample.Unknown
	if sample.Limits.Quota != bandwidth.Unlimited || sample.Unknown.Has(Limits) {
		s.WallPeriods += float64(sample.Interval) / float64(PeriodOf(sample.Limits))
	}
}

func count(is bool) int {
	if is {
		return 1
	}
	return 0
}

// PeriodOf returns the enforcement period of limits, or DefaultPeriod if it is unknown.
func PeriodOf(l bandwidth.Limits) time.Duration {
	if l.Period <= 0 {
		return DefaultPeriod
	}
	return l.Period
}
