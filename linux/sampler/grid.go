package sampler

import (
	"slices"
	"time"
)

// grid is the planned moments of one interval, and the groups that are sampled then.
type grid struct {
	interval time.Duration
	next     time.Duration // a multiple of the interval
	series   []*series
}

// advance plans the next moment after now, and returns how many have gone by.
func (g *grid) advance(now time.Duration) (missed uint64) {
	next := (now/g.interval + 1) * g.interval
	missed = uint64((next-g.next)/g.interval) - 1
	g.next = next
	return missed
}

// gridOf returns the grid of an interval. A new one begins at the first of its moments
// that is not before the given one.
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

// planned returns the next planned moment of all grids.
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

// plan plans the next moments of the grids that were sampled at a time, and drops those that
// have become empty.
func (s *Sampler) plan(sampled, now time.Duration) (missed uint64) {
	for _, g := range s.grids {
		if g.next <= sampled {
			missed += g.advance(now)
		}
	}
	if slices.ContainsFunc(s.grids, isEmpty) {
		s.grids = slices.DeleteFunc(s.grids, isEmpty)
	}
	return missed
}

func isEmpty(g *grid) bool { return len(g.series) == 0 }
