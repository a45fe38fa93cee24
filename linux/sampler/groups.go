package sampler

import (
	"errors"
	"path"
	"time"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// takeWanted takes over the groups of the last call of Set.
func (s *Sampler) takeWanted() {
	s.mu.Lock()
	wanted, changed := s.wanted, s.changed
	s.changed = false
	s.mu.Unlock()
	if !changed {
		return
	}
	for _, x := range s.known {
		x.unwanted = true
	}
	for _, group := range wanted {
		if x, ok := s.known[group]; ok {
			x.unwanted = false
			continue
		}
		x := &series{path: group}
		s.known[group] = x
		s.absent = append(s.absent, x)
	}
	for _, g := range s.grids {
		g.series = s.dropUnwanted(g.series)
	}
	s.absent = s.dropUnwanted(s.absent)
	s.within = make(map[string]int, len(s.known))
	for group := range s.known {
		s.within[path.Dir(group)]++
	}
}

// dropUnwanted removes unwanted groups from a list and reports those that were sampled.
func (s *Sampler) dropUnwanted(from []*series) []*series {
	kept := from[:0]
	for _, x := range from {
		if !x.unwanted {
			kept = append(kept, x)
			continue
		}
		if x.reader != nil {
			s.tick.Absent = append(s.tick.Absent, Absent{Group: x.path})
		}
		x.close()
		delete(s.known, x.path)
	}
	clear(from[len(kept):])
	return kept
}

// look tries to open absent groups. Opening is slow, so look stops after a quarter of the shortest
// interval and continues at the next tick, so that other groups are sampled in time.
func (s *Sampler) look(planned time.Duration) {
	if len(s.absent) == 0 {
		return
	}
	until := s.tick.At + s.shortest()/4
	kept := s.absent[:0]
	for i, x := range s.absent {
		now := s.now()
		if now > until {
			kept = append(kept, s.absent[i:]...)
			break
		}
		if x.lookAt > now {
			kept = append(kept, x)
			continue
		}
		if err := x.open(s.fs, s.options, len(s.known)); err != nil {
			x.lookAt = now + lookEvery
			s.reportAbsent(x, err)
			kept = append(kept, x)
			continue
		}
		// Spread the reads of limits over several ticks.
		x.limitsAt = now + s.options.LimitsEvery*time.Duration(1+s.opened%16)/16
		s.opened++
		s.place(x, planned)
	}
	clear(s.absent[len(kept):])
	s.absent = kept
}

// shortest returns the shortest interval of all grids, or an hour without grids.
func (s *Sampler) shortest() time.Duration {
	shortest := time.Hour
	for _, g := range s.grids {
		shortest = min(shortest, g.interval)
	}
	return shortest
}

func (s *Sampler) reportAbsent(x *series, err error) {
	if !x.reported {
		x.reported = true
		s.tick.Absent = append(s.tick.Absent, Absent{x.path, err})
	}
}

// place puts a group into the grid of its interval.
func (s *Sampler) place(x *series, from time.Duration) {
	g := s.gridOf(s.intervalOf(x), from)
	g.series = append(g.series, x)
}

// intervalOf returns the sampling interval of a group.
func (s *Sampler) intervalOf(x *series) time.Duration {
	if s.options.Interval != 0 {
		return s.options.Interval
	}
	period, shortest := x.interval(), max(s.options.Shortest, s.options.Spacing*time.Duration(s.within[path.Dir(x.path)]))
	return period * max(1, (shortest+period-1)/period)
}

// placeMoving puts the groups whose period has changed into their new grids.
func (s *Sampler) placeMoving() {
	for _, x := range s.moving {
		s.place(x, s.now())
	}
	clear(s.moving)
	s.moving = s.moving[:0]
}

// sampleGrid samples the groups of a grid. It returns the number of gaps.
func (s *Sampler) sampleGrid(g *grid) (gaps uint64) {
	kept := g.series[:0]
	for _, x := range g.series {
		gap, err := s.sample(x, g.interval)
		if gap {
			gaps++
		}
		switch {
		case err != nil:
			x.close()
			x.lookAt = s.now()
			if !errors.Is(err, cgroup.ErrGone) {
				x.lookAt += lookEvery
			}
			s.reportAbsent(x, err)
			s.absent = append(s.absent, x)
		case s.intervalOf(x) != g.interval:
			s.moving = append(s.moving, x)
		default:
			kept = append(kept, x)
		}
	}
	clear(g.series[len(kept):])
	g.series = kept
	return gaps
}

// sample reads a group and adds a sample for the time since the last reading. It omits the sample
// and returns a gap if a counter has decreased.
func (s *Sampler) sample(x *series, interval time.Duration) (gap bool, err error) {
	var stat cgroupstat.Stat
	if err := x.reader.Read(&stat); err != nil {
		return false, err
	}
	at := s.now()
	if at >= x.limitsAt {
		if x.limits, err = x.reader.Limits(); err != nil {
			return false, err
		}
		x.limitsAt = at + s.options.LimitsEvery
	}
	if x.based {
		d, ok := difference(&x.last, &stat)
		if ok {
			d.At, d.Interval, d.Limits = at, at-x.at, x.limits
			if !x.reader.HasWaits() {
				d.Unknown |= trace.Waits
			}
			d.Late = d.Interval > interval+interval/4
			s.tick.Samples = append(s.tick.Samples, Sample{x.path, d})
		}
		gap = !ok
	}
	x.last, x.at, x.based = stat, at, true
	return gap, nil
}
