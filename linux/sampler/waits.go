package sampler

import (
	"math"
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

const (
	waitInterval = 900 * time.Millisecond // between two readings of a group, at least
	waitWindow   = 10 * time.Second
)

// Waits measures how long threads wait for CPUs, for kernels without pressure stall information. It
// reads the run delays of threads about once a second, and counts the longest of each reading.
type Waits struct {
	delays func(group string) (map[int]time.Duration, error)
	now    func() time.Time
	groups map[string]*groupWait
}

// groupWait is the wait of one group.
type groupWait struct {
	threads map[int]time.Duration // run delay of each thread at the last reading
	past    []waitAt              // readings in waitWindow, oldest first
}

// waitAt is the total wait of a group at one reading.
type waitAt struct {
	at    time.Time
	total time.Duration
}

// NewWaits returns a Waits for the groups of fs.
func NewWaits(fs *cgroup.FS) *Waits {
	delays := func(group string) (map[int]time.Duration, error) { return cgroupstat.RunDelays(fs, group, math.MaxInt) }
	return &Waits{delays: delays, now: time.Now, groups: map[string]*groupWait{}}
}

// Share returns the share of the last ten seconds, or of the time since its first call for the
// group, in which a thread of the group waited. known is false if there are fewer than two
// readings.
func (w *Waits) Share(group string) (share float64, known bool) {
	g, now := w.groups[group], w.now()
	if g == nil || now.Sub(g.last().at) >= waitInterval {
		threads, err := w.delays(group)
		if err != nil {
			delete(w.groups, group)
			return 0, false
		}
		if g == nil {
			g = &groupWait{past: []waitAt{{at: now}}}
			w.groups[group] = g
		} else {
			g.add(now, threads)
		}
		g.threads = threads
	}
	from, to := g.past[0], g.last()
	if len(g.past) < 2 {
		return 0, false
	}
	return float64(to.total-from.total) / float64(to.at.Sub(from.at)), true
}

func (g *groupWait) last() waitAt { return g.past[len(g.past)-1] }

// add adds a reading.
func (g *groupWait) add(now time.Time, threads map[int]time.Duration) {
	last := g.last()
	g.past = append(g.past, waitAt{now, last.total + cgroupstat.LongestDelay(g.threads, threads, now.Sub(last.at))})
	for len(g.past) > 2 && now.Sub(g.past[0].at) > waitWindow {
		g.past = g.past[1:]
	}
}
