package top

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
)

const (
	cellTime = 100 * time.Millisecond
	cells    = 100 // ten seconds
	bars     = 40  // of the last periods
)

// cell is the sum of the samples that ended in 100 ms.
type cell struct {
	covered       time.Duration // by the samples
	usage         time.Duration
	burst         time.Duration
	timer         uint64  // periods in which the kernel's timer ran
	wall          float64 // all periods
	throttled     uint64
	limitedUsage  time.Duration // of samples with a limit
	limitedBudget time.Duration // that their limits allowed
}

func (c *cell) add(o cell) {
	c.covered += o.covered
	c.usage += o.usage
	c.burst += o.burst
	c.timer += o.timer
	c.wall += o.wall
	c.throttled += o.throttled
	c.limitedUsage += o.limitedUsage
	c.limitedBudget += o.limitedBudget
}

func cellOf(s trace.Sample) cell {
	c := cell{covered: s.Interval, usage: s.Usage, burst: s.BurstTime, timer: uint64(s.Periods), throttled: uint64(s.Throttled)}
	if s.Limits.Period > 0 {
		c.wall = float64(s.Interval) / float64(s.Limits.Period)
	}
	if cpus, limited := s.Limits.CPUs(); limited {
		c.limitedUsage, c.limitedBudget = s.Usage, time.Duration(cpus*float64(s.Interval))
	}
	return c
}

// cpus returns the average number of CPUs used.
func (c cell) cpus() float64 { return ratio(float64(c.usage), float64(c.covered)) }

// ofLimit returns the used share of the limit, false without a limit.
func (c cell) ofLimit() (float64, bool) {
	return ratio(float64(c.limitedUsage), float64(c.limitedBudget)), c.limitedBudget > 0
}

// throttledOfTimer and throttledOfWall return shares of periods, at most 1: one more period may end
// in a sample than fits into it.
func (c cell) throttledOfTimer() float64 {
	return min(1, ratio(float64(c.throttled), float64(c.timer)))
}
func (c cell) throttledOfWall() float64 { return min(1, ratio(float64(c.throttled), c.wall)) }

func ratio(a, b float64) float64 {
	if b <= 0 {
		return 0
	}
	return a / b
}

// bar is the bar of one sample.
type bar struct {
	height    float64 // usage in multiples of the limit, or in CPUs without a limit
	throttled bool
}

// row is one group.
type row struct {
	group, name string
	limits      bandwidth.Limits
	unknown     trace.Figures
	wait        float64
	waitKnown   bool
	active      bool // it has used CPU time, or has a limit
	cells       [cells]cell
	newest      int64 // number of the newest cell, its time / cellTime
	bars        [bars]bar
	count       int // number of all bars so far
}

func (r *row) add(s trace.Sample) {
	number := int64(s.At / cellTime)
	if number-r.newest >= cells {
		r.cells, r.newest = [cells]cell{}, number
	}
	for r.newest < number {
		r.newest++
		r.cells[r.newest%cells] = cell{}
	}
	c := cellOf(s)
	r.cells[r.newest%cells].add(c)
	r.limits, r.unknown = s.Limits, s.Unknown
	height, limited := c.ofLimit()
	if !limited {
		height = c.cpus()
	}
	r.active = r.active || limited || s.Usage > 0
	r.bars[r.count%bars] = bar{height, s.Throttled > 0}
	r.count++
}

// last returns the sum of the newest cells that cover a time, almost: samples do not end exactly on
// time.
func (r *row) last(window time.Duration) cell {
	var sum cell
	for i := range min(cells, r.newest+1) {
		if sum.covered >= window-cellTime/4 {
			break
		}
		sum.add(r.cells[(r.newest-i)%cells])
	}
	return sum
}

// window is the longest time that rows cover.
const window = cells * cellTime

// recent returns up to n of the newest bars, oldest first.
func (r *row) recent(n int) []bar {
	n = min(n, r.count, bars)
	out := make([]bar, 0, n)
	for i := r.count - n; i < r.count; i++ {
		out = append(out, r.bars[i%bars])
	}
	return out
}
