package trace

import (
	"math"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// mostBack bounds how many samples a wait is looked for in: a second of a millisecond each.
const mostBack = 1000

// run is a stretch of samples in which throttling moved usage to a later time.
type run struct {
	begin, end int // samples
	open       bool
}

// recoverDemand puts what was wanted in place of what was used, in samples without a gap,
// and returns the runs in which it may have done so; see the package comment.
func recoverDemand(samples []Sample, nominal time.Duration) []run {
	waited := waiting(samples, nominal)
	runs := throttledRuns(samples, waited, nominal)
	for _, r := range runs {
		moveEarlier(samples[r.begin:r.end], waited[r.begin:r.end])
	}
	return runs
}

// moveEarlier gives each sample as much of what is left of the run's usage as it can have
// wanted. The sum stays.
func moveEarlier(samples []Sample, waited []time.Duration) {
	var left time.Duration
	for i := range samples {
		left += samples[i].Usage
	}
	for i := range samples {
		wanted := min(samples[i].Usage+waited[i], left)
		samples[i].Usage = wanted
		left -= wanted
	}
}

// throttledRuns returns the stretches from a sample in which CPUs waited to the first
// period after them in which none did, or to a sample in which nothing was wanted.
func throttledRuns(samples []Sample, waited []time.Duration, nominal time.Duration) []run {
	var runs []run
	for i := 0; i < len(samples); i++ {
		if waited[i] == 0 {
			continue
		}
		r := run{begin: i, open: true}
		var room time.Duration
		for ; i < len(samples) && r.open; i++ {
			switch {
			case waited[i] > 0:
				room = 0
			case samples[i].Usage == 0:
				r.open = false
			default:
				room += samples[i].Interval
				r.open = room < periodOf(samples[i].Limits)-nominal/2
			}
		}
		r.open = r.open || i == len(samples) && samples[i-1].WasThrottled()
		r.end = i
		runs = append(runs, r)
		i--
	}
	return runs
}

// waiting returns how long CPUs waited for throttling to end in each sample, in all.
func waiting(samples []Sample, nominal time.Duration) []time.Duration {
	waited := make([]time.Duration, len(samples))
	early := false
	last := time.Duration(math.MinInt64 / 2) // when throttling was counted before
	for i := range samples {
		s := &samples[i]
		if s.ThrottledTime == 0 {
			continue
		}
		period := periodOf(s.Limits)
		if s.Begin()-last >= period/2 { // a new run
			early = usedUpBefore(samples[:i], s.Limits)
		}
		last = s.At
		end := s.At
		if early && s.Interval <= period+nominal/2 {
			end = s.Begin()
		}
		spread(samples[:i+1], waited, end, waitedFor(s), s.ThrottledTime)
	}
	return waited
}

// usedUpBefore reports whether the period before the end of the samples has seen a whole
// quota used, so that throttling counted in the next sample began before it.
func usedUpBefore(samples []Sample, l bandwidth.Limits) bool {
	if l.Quota == bandwidth.Unlimited {
		return false
	}
	var used, length time.Duration
	period := periodOf(l)
	for i := len(samples) - 1; i >= max(0, len(samples)-mostBack) && length < period; i-- {
		used += samples[i].Usage
		length += samples[i].Interval
	}
	return used >= l.Quota-l.Quota/20
}

// waitedFor returns for how long CPUs waited before the throttling was counted. With n CPUs
// that began to run with the period, quota/n + throttled time/n are the whole period.
func waitedFor(s *Sample) time.Duration {
	period := periodOf(s.Limits)
	if s.Throttled > 1 || s.Interval > period+period/2 || s.Limits.Quota == bandwidth.Unlimited {
		return max(s.Interval, period)
	}
	waited := float64(s.ThrottledTime)
	return max(1, time.Duration(float64(period)*waited/(waited+float64(s.Limits.Quota))))
}

// spread adds the time that CPUs waited, in the stretch before end, to the samples there,
// of which there is at least one; the last one ends with it or contains it. What lies
// before the first, or more than mostBack samples back, is given to the first that is not.
func spread(samples []Sample, waited []time.Duration, end, stretch, sum time.Duration) {
	left, at := sum, len(samples)-1
	for i := at; i >= max(0, len(samples)-mostBack) && samples[i].At > end-stretch; i-- {
		overlap := min(end, samples[i].At) - max(samples[i].Begin(), end-stretch)
		if overlap <= 0 {
			continue
		}
		part := min(left, time.Duration(float64(sum)*float64(overlap)/float64(stretch)))
		waited[i] += part
		left -= part
		at = i
	}
	waited[at] += left
}
