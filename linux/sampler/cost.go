package sampler

import "time"

// Cost is what sampling has taken and missed since Run began.
type Cost struct {
	Wall time.Duration
	// CPU is the CPU time of reading and computing; without waking up, and without
	// what the consumer does.
	CPU    time.Duration
	Groups int    // sampled at present
	Absent int    // wanted, and not there
	Ticks  uint64 // times it woke up
	Missed uint64 // planned moments that had gone by, of all intervals
	// Samples were delivered; Late ones among them cover a quarter more than their
	// interval. Gaps are samples that were left out since counters had gone backwards.
	Samples, Late, Gaps uint64
	// How late it woke up: half of all times no more than Jitter50, 99 of 100 no more
	// than Jitter99 (each up to 12.5% too high).
	Jitter50, Jitter99, JitterMax time.Duration
}

// Share returns the share of one CPU that sampling used.
func (c Cost) Share() float64 {
	if c.Wall <= 0 {
		return 0
	}
	return float64(c.CPU) / float64(c.Wall)
}

// Cost returns the cost of sampling up to the last tick. It may be called at any time.
func (s *Sampler) Cost() Cost {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.cost
	c.Jitter50, c.Jitter99, c.JitterMax = s.jitter.quantile(0.5), s.jitter.quantile(0.99), s.jitter.max
	return c
}
