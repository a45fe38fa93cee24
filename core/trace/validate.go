package trace

import (
	"errors"
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// MaxTime is an upper bound for the length of recordings. It is small enough that the sum of two
// such times does not overflow a time.Duration (292 years).
const MaxTime = 100 * 365 * 24 * time.Hour

// Validate returns an error if the sample is impossible.
func (s *Sample) Validate() error {
	switch {
	case s.Interval <= 0:
		return fmt.Errorf("the interval is %v, want more than 0", s.Interval)
	case s.Interval > MaxTime || s.At.Abs() > MaxTime:
		return errors.New("it lies, or lasts, more than 100 years")
	}
	for _, t := range []struct {
		name  string
		value time.Duration
	}{{"usage", s.Usage}, {"throttled time", s.ThrottledTime}, {"burst time", s.BurstTime}} {
		if t.value < 0 || t.value > MaxTime {
			return fmt.Errorf("the %s is %v, want 0 or more, and less than 100 years", t.name, t.value)
		}
	}
	l := s.Limits
	switch {
	case l.Quota <= 0 && l.Quota != bandwidth.Unlimited:
		return fmt.Errorf("the quota is %v, want more than 0, or unlimited", l.Quota)
	case l.Quota != bandwidth.Unlimited && l.Period == 0:
		return fmt.Errorf("the quota is %v, without a period", l.Quota)
	case l.Period < 0 || l.Burst < 0:
		return fmt.Errorf("the period is %v and the burst %v, want 0 or more", l.Period, l.Burst)
	}
	return nil
}
