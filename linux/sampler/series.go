package sampler

import (
	"math"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
)

// series is a wanted group.
type series struct {
	path   string
	reader *cgroup.StatReader // nil while the group is absent
	// last is what was read at the time "at"; when based is false there is nothing to
	// compare with yet.
	last     cgroup.Stat
	at       time.Duration
	based    bool
	limits   bandwidth.Limits
	limitsAt time.Duration // when to read them next
	lookAt   time.Duration // when to look for the absent group next
	told     bool          // that it is absent
	unwanted bool
}

// open opens the group's files.
func (x *series) open(fs *cgroup.FS) error {
	r, err := fs.OpenStat(x.path)
	if err != nil {
		return err
	}
	if x.limits, err = r.Limits(); err != nil {
		r.Close()
		return err
	}
	x.reader, x.based, x.told = r, false, false
	return nil
}

func (x *series) close() {
	if x.reader != nil {
		x.reader.Close()
		x.reader = nil
	}
}

// interval is how often to sample the group by default: its period.
func (x *series) interval() time.Duration {
	if x.limits.Period < MinInterval { // no kernel's
		return time.Second / 10
	}
	return x.limits.Period
}

// difference makes a sample of two readings; false when one of the counters went
// backwards, or further than it can.
func difference(from, to *cgroup.Stat) (trace.Sample, bool) {
	periods, throttled, bursts := to.Periods-from.Periods, to.Throttled-from.Throttled, to.Bursts-from.Bursts
	s := trace.Sample{
		Usage:         to.Usage - from.Usage,
		Periods:       uint32(periods),
		Throttled:     uint32(throttled),
		Bursts:        uint32(bursts),
		ThrottledTime: to.ThrottledTime - from.ThrottledTime,
		BurstTime:     to.BurstTime - from.BurstTime,
	}
	// A counter that went backwards wraps around to far above these.
	return s, max(periods, throttled, bursts) <= math.MaxUint32 && min(s.Usage, s.ThrottledTime, s.BurstTime) >= 0
}
