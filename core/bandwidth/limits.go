package bandwidth

import "time"

// Unlimited is the quota of a group without one.
const Unlimited time.Duration = -1

// Limits are a group's bandwidth settings as the kernel holds them.
type Limits struct {
	Quota  time.Duration // CPU time per period, or Unlimited
	Period time.Duration // 1 ms to 1 s
	Burst  time.Duration // unused CPU time that may be saved up; 0 <= Burst <= Quota unless unlimited
}

// CPUs returns the quota as a number of CPUs; false when there is none.
func (l Limits) CPUs() (float64, bool) {
	if l.Quota == Unlimited {
		return 0, false
	}
	return float64(l.Quota) / float64(l.Period), true
}
