package trace

import (
	"math"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// segment consists of samples that together last about one enforcement period, or of one longer
// sample. It ends where the kernel counted throttling, or else where a period is complete.
type segment struct {
	begin, end    int // indices of samples
	usage, length time.Duration
	waited        time.Duration // throttled time, summed over CPUs
}

// cpus returns the average number of CPUs that ran or waited.
func (s *segment) cpus() float64 { return float64(s.usage+s.waited) / float64(s.length) }

// cutter divides samples without a gap into segments.
type cutter struct {
	samples []Sample
	nominal time.Duration
	done    []segment
	current segment
	counted time.Duration // when throttling was last counted
	before  bool          // the throttling counted in a sample happened before that sample
}

func segmentsOf(samples []Sample, nominal time.Duration) []segment {
	c := cutter{samples: samples, nominal: nominal, counted: math.MinInt64 / 2}
	for i := range samples {
		c.add(i)
	}
	c.cut()
	return c.done
}

func (c *cutter) add(i int) {
	s := &c.samples[i]
	period := PeriodOf(s.Limits)
	long, throttled := s.Interval > period+period/2, s.ThrottledTime > 0
	if long {
		c.cut()
	} else if throttled {
		c.locate(i, period)
		if c.before {
			c.cutThrottled(s.ThrottledTime, period)
		}
	}
	c.current.end = i + 1
	c.current.usage += s.Usage
	c.current.length += s.Interval
	switch {
	case long:
		c.current.waited = s.ThrottledTime
		c.cut()
	case throttled && !c.before:
		c.cutThrottled(s.ThrottledTime, period)
	case c.current.length >= period-c.nominal/2:
		c.cut()
	}
}

// locate decides, at the first throttling of a sequence, whether it happened before the sample in
// which it was counted. The phase of the kernel's timer is unknown, and throttled time is counted
// when the throttling ends, so samples as long as a period may count it late: if a whole quota had
// been used in the previous period. With short samples this makes no difference.
func (c *cutter) locate(i int, period time.Duration) {
	s := &c.samples[i]
	if s.Begin()-c.counted >= period/2 {
		c.before = len(c.done) > 0 && s.Interval > period/4 && usedUp(c.samples[:i], s.Limits)
	}
	c.counted = s.At
}

// usedUp reports whether at least 95% of a quota was used in the last period of the samples.
func usedUp(samples []Sample, l bandwidth.Limits) bool {
	var used, length time.Duration
	period := PeriodOf(l)
	for i := len(samples) - 1; i >= 0 && length < period; i-- {
		used += samples[i].Usage
		length += samples[i].Interval
	}
	return l.Quota != bandwidth.Unlimited && used >= l.Quota-l.Quota/20
}

func (c *cutter) cut() {
	if c.current.begin < c.current.end {
		c.done = append(c.done, c.current)
	}
	c.current = segment{begin: c.current.end, end: c.current.end}
}

// cutThrottled ends a segment at whose end throttling was counted. It merges a segment that is much
// shorter than a period with the previous one, if no CPU waited in that.
func (c *cutter) cutThrottled(waited, period time.Duration) {
	short := c.current.length < period-period/4
	c.current.waited = waited
	if n := len(c.done); n > 0 && short && (c.done[n-1].waited == 0 || c.current.length == 0) {
		last := &c.done[n-1]
		last.end = c.current.end
		last.usage += c.current.usage
		last.length += c.current.length
		last.waited += waited
		c.current.begin = c.current.end
	}
	c.cut()
}

// run is a sequence of segments in which throttling moved usage to a later time.
type run struct {
	begin, end int  // indices of segments
	open       bool // still throttled at a gap or the end of the recording: demand exceeds usage
}

// throttledRuns returns the runs of segments in which CPUs waited. Each run includes the first
// segment after it, in which no CPU waited.
func throttledRuns(segments []segment, samples []Sample, nominal time.Duration) []run {
	var runs []run
	for i := 0; i < len(segments); {
		if segments[i].waited == 0 {
			i++
			continue
		}
		r := run{begin: i, open: true}
		for ; i < len(segments) && r.open; i++ {
			s := &segments[i]
			cutShort := s.length < PeriodOf(samples[s.begin].Limits)-nominal/2
			r.open = s.waited > 0 || s.usage > 0 && cutShort
		}
		r.open = r.open || i == len(segments) && samples[len(samples)-1].WasThrottled()
		r.end = i
		runs = append(runs, r)
	}
	return runs
}
