package sampler

import (
	"math"
	"math/bits"
	"time"
)

// Cost is the cost of sampling since Run started, and how much was missed.
type Cost struct {
	Wall time.Duration
	// CPU is the CPU time used for reading and computing, without waking up and without the
	// consumer.
	CPU    time.Duration
	Groups int    // groups that are sampled at present
	Absent int    // wanted groups that cannot be sampled at present
	Ticks  uint64 // rounds of sampling
	Missed uint64 // planned times that passed, over all grids
	// Samples counts delivered samples. Late ones among them cover more than 1.25 intervals. Gaps
	// counts samples that were omitted because a counter had decreased.
	Samples, Late, Gaps uint64
	// Jitter50 and Jitter99 are quantiles of the delay between a planned time and the start of its
	// tick, up to 12.5% too high. JitterMax is the longest delay.
	Jitter50, Jitter99, JitterMax time.Duration
}

// Share returns the share of one CPU that sampling used.
func (c Cost) Share() float64 {
	if c.Wall <= 0 {
		return 0
	}
	return float64(c.CPU) / float64(c.Wall)
}

// Cost returns the cost of sampling up to the last tick.
func (s *Sampler) Cost() Cost {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cost
	c.Jitter50, c.Jitter99, c.JitterMax = s.jitter.quantile(0.5), s.jitter.quantile(0.99), s.jitter.max
	return c
}

// account adds the tick to the cost.
func (s *Sampler) account(planned time.Duration, gaps uint64, cpuBefore time.Duration) {
	late := uint64(0)
	for i := range s.tick.Samples {
		if s.tick.Samples[i].Late {
			late++
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.cost
	c.Groups, c.Absent = len(s.known)-len(s.absent), len(s.absent)
	c.Ticks++
	c.Missed += s.tick.Missed
	c.Samples += uint64(len(s.tick.Samples))
	c.Late += late
	c.Gaps += gaps
	s.jitter.add(s.tick.At - planned)
	c.Wall = s.now()
	c.CPU += s.options.Clock.CPU() - cpuBefore
}

// histogram counts durations in buckets of an eighth of a power of two, so its quantiles are at
// most 12.5% too high. It does not allocate.
type histogram struct {
	counts [buckets]uint64
	n      uint64
	max    time.Duration
}

const (
	subBits = 3
	sub     = 1 << subBits
	buckets = (64 - subBits) * sub
)

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.n++
	h.max = max(h.max, d)
}

// bucket returns the bucket of a number. Each number below sub has its own bucket. For larger ones
// the first subBits+1 bits decide.
func bucket(v uint64) int {
	if v < sub {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)*sub + int(v>>shift)%sub
}

// last returns the largest number in a bucket.
func last(bucket int) uint64 {
	if bucket < sub {
		return uint64(bucket)
	}
	shift := bucket/sub - 1
	return uint64(sub+bucket%sub+1)<<shift - 1
}

// quantile returns the q-quantile of the durations, or 0 if there are none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(h.n)))
	var seen uint64
	for i, count := range h.counts {
		if seen += count; seen >= rank && seen > 0 {
			return min(time.Duration(last(i)), h.max)
		}
	}
	return h.max
}
