//go:build linux

package top

import (
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
)

const (
	waitEvery  = 900 * time.Millisecond // shortest time between two readings of a group
	waitWindow = 10 * time.Second
)

// waits measures for which part of the last ten seconds threads of groups waited for CPUs, where the kernel
// does not: in each second, that of the thread that waited longest.
type waits struct {
	delays func(group string) (map[int]time.Duration, error)
	now    func() time.Time
	groups map[string]*groupWait
}

// groupWait is what the threads of a group have waited.
type groupWait struct {
	threads map[int]time.Duration // by thread, since it was started
	past    []waitAt              // oldest first
}

// waitAt is how long the group has waited at a time.
type waitAt struct {
	at    time.Time
	total time.Duration
}

func newWaits(fs *cgroup.FS) *waits {
	return &waits{delays: fs.RunDelays, now: time.Now, groups: map[string]*groupWait{}}
}

// share returns the part of the last ten seconds in which threads of a group waited, or of the time since its
// first call for the group.
func (w *waits) share(group string) (share float64, known bool) {
	g, now := w.groups[group], w.now()
	if g == nil || now.Sub(g.last().at) >= waitEvery {
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

// add adds what the threads have waited since the last reading.
func (g *groupWait) add(now time.Time, threads map[int]time.Duration) {
	longest, last := time.Duration(0), g.last()
	for id, total := range threads {
		longest = max(longest, total-g.threads[id]) // a new thread was started meanwhile
	}
	g.past = append(g.past, waitAt{now, last.total + min(longest, now.Sub(last.at))})
	for len(g.past) > 2 && now.Sub(g.past[0].at) > waitWindow {
		g.past = g.past[1:]
	}
}
