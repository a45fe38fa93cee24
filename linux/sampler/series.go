package sampler

import (
	"cmp"
	"math"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// series is a wanted group.
type series struct {
	path   string
	reader *cgroupstat.Reader // nil while the group is absent
	// last was read at the time "at". It is valid if based is true.
	last     cgroupstat.Stat
	at       time.Duration
	based    bool
	limits   bandwidth.Limits
	limitsAt time.Duration // when to read the limits next
	lookAt   time.Duration // when to try to open the absent group next
	reported bool          // the group was reported as absent
	unwanted bool
}

// delayShare is the part of a CPU that may be used to read the run delays of all groups.
const delayShare = .01

// open opens the group's files. groups is the number of all groups.
func (x *series) open(fs *cgroup.FS, o Options, groups int) error {
	r, err := cgroupstat.Open(fs, x.path)
	if err != nil {
		return err
	}
	if x.limits, err = r.Limits(); err != nil {
		r.Close()
		return err
	}
	if o.Waits {
		interval := cmp.Or(o.Interval, x.interval())
		r.ReadWaits(int((cgroupstat.WaitsEvery+interval-1)/interval), delayShare/float64(groups))
	}
	x.reader, x.based, x.reported = r, false, false
	return nil
}

func (x *series) close() {
	if x.reader != nil {
		x.reader.Close()
		x.reader = nil
	}
}

// interval returns the group's default interval: its period.
func (x *series) interval() time.Duration {
	if x.limits.Period < MinInterval { // impossible on a kernel
		return time.Second / 10
	}
	return x.limits.Period
}

// difference returns the sample between two readings, and false if a counter has decreased or grown
// impossibly far.
func difference(from, to *cgroupstat.Stat) (trace.Sample, bool) {
	periods, throttled, bursts := to.Periods-from.Periods, to.Throttled-from.Throttled, to.Bursts-from.Bursts
	s := trace.Sample{
		Usage:         to.Usage - from.Usage,
		Periods:       uint32(periods),
		Throttled:     uint32(throttled),
		Bursts:        uint32(bursts),
		ThrottledTime: to.ThrottledTime - from.ThrottledTime,
		BurstTime:     to.BurstTime - from.BurstTime,
		Waited:        max(0, to.Waited-from.Waited),
	}
	if to.NoBursts {
		s.Unknown |= trace.Bursts
	}
	if to.ThrottledTime == math.MaxInt64 { // the kernel has once computed a negative time
		s.Unknown |= trace.ThrottledTime
	}
	// The difference of a counter that has decreased wraps around to a number far above these.
	return s, max(periods, throttled, bursts) <= math.MaxUint32 && min(s.Usage, s.ThrottledTime, s.BurstTime) >= 0
}

// grid is the planned times of one interval and the groups that are sampled then.
type grid struct {
	interval time.Duration
	next     time.Duration // a multiple of the interval
	series   []*series
}

// advance plans the next time after now and returns the number of planned times that passed.
func (g *grid) advance(now time.Duration) (missed uint64) {
	next := (now/g.interval + 1) * g.interval
	missed = uint64((next-g.next)/g.interval) - 1
	g.next = next
	return missed
}

// gridOf returns the grid of an interval. A new grid starts at the first multiple of the interval
// that is not before from.
func (s *Sampler) gridOf(interval, from time.Duration) *grid {
	for _, g := range s.grids {
		if g.interval == interval {
			return g
		}
	}
	g := &grid{interval: interval, next: (from + interval - 1) / interval * interval}
	s.grids = append(s.grids, g)
	return g
}

// planned returns the next planned time of all grids.
func (s *Sampler) planned(now time.Duration) time.Duration {
	if len(s.grids) == 0 {
		return now + idleInterval
	}
	next := s.grids[0].next
	for _, g := range s.grids[1:] {
		next = min(next, g.next)
	}
	return next
}

// plan advances the grids that were sampled, and removes those that have become empty. It returns
// the number of planned times that passed.
func (s *Sampler) plan(sampled, now time.Duration) (missed uint64) {
	for _, g := range s.grids {
		if g.next <= sampled {
			missed += g.advance(now)
		}
	}
	s.grids = slices.DeleteFunc(s.grids, func(g *grid) bool { return len(g.series) == 0 })
	return missed
}
