package agent

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/wait"

	"pinfold.dev/pinfold/agent/batch"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cputime"
)

// tickEvery is the interval at which raising quotas is decided: the most common period.
const tickEvery = 100 * time.Millisecond

// ticks decide, ten times per second, which quotas to raise or lower and what batch pods may use.
type ticks struct {
	engine *engine
	began  time.Time // origin of the ticks' time
	// onlineWait observes, in seconds, the longest time that an online container waited in a tick.
	onlineWait prometheus.Histogram

	// The following fields are what was read at the last tick. They change under the engine's lock.
	usage  *batch.Usage
	load   map[cpuset.CPU]cputime.Times
	loadAt time.Time
	behind cgroupstat.Meter // of pods with idle priority
}

func newTicks(e *engine) *ticks {
	return &ticks{engine: e, began: e.Now(),
		usage: &batch.Usage{Groups: e.kernel.groups, Dedup: e.reports.dedup, Waits: e.Batch.Objective > 0, Tick: tickEvery,
			Traced: e.delays.traced, Pressure: func(group string) (cgroupstat.Pressure, error) {
				return cgroupstat.ReadPressure(e.kernel.groups, group)
			}},
		onlineWait: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pinfold_online_wait_seconds",
			Help:    "Longest time that an online container (class LS) waited for CPUs in 100 ms, without those that were throttled.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 11)}),
	}
}

// loop raises and lowers quotas until the context ends, and then lowers all that are raised.
func (t *ticks) loop(ctx context.Context) {
	e := t.engine
	defer e.with(func(c *control.Control) {
		if last, _ := c.Tick(groups.Tick{Last: true}); last.Write {
			e.decide()
		}
	})
	wait.NonSlidingUntilWithContext(ctx, func(context.Context) { t.tick() }, tickEvery)
}

// tick decides which quotas to raise or lower and what batch pods may use, and writes the quotas.
// It reads the settings only of cgroups whose quota is raised or whose limits have changed.
func (t *ticks) tick() {
	e := t.engine
	samples, changed := e.meters.drain()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	in := groups.Tick{Now: now.Sub(t.began), Wall: now, Samples: samples}
	in.Idle, in.Interval = t.idle()
	if in.Interval > 0 {
		in.Behind, _ = t.behind.Used(e.kernel.groups, e.status.Raises.Behind)
	}
	in.Colocation = t.usage.Measure(in.Now, &e.status.Batch)
	in.Present = e.kernel.bandwidth(append(changed, e.status.Raises.Raised...))
	before := e.status.Batch.Decision
	done, status := e.control.Tick(in)
	e.status = status
	t.passBatch(before, in.Colocation)
	for _, c := range done.Changes {
		e.meters.count(c)
		e.Log.Debug("quota", "pod", c.Pod.Name(), "container", c.Ref.Container,
			"raised", c.Raised, "quota", c.Quota, "reason", c.Reason.String())
	}
	if done.Write {
		e.changes++
		e.decide()
	}
}

// passBatch passes on what was decided about batch pods after a tick, which is nil if they are not
// bounded.
func (t *ticks) passBatch(before colocation.Decision, tick *colocation.Tick) {
	e := t.engine
	if tick == nil {
		return
	}
	if !tick.WaitUnknown {
		t.onlineWait.Observe(tick.Waited.Seconds())
	}
	after := e.status.Batch.Decision
	e.scheduler.SetBudget(e.status.Batch.Budget())
	if after.Budget != before.Budget {
		e.Log.Debug("budget of batch pods", "before", before.Budget, "now", after.Budget, "others", tick.Others,
			"threshold", after.Threshold, "waited", tick.Waited)
	}
	if after.Capacity != before.Capacity || after.Starved != before.Starved || before.Budget == 0 && after.Budget > 0 {
		e.reports.refresh()
	}
}

// idle returns how long each CPU was idle since the last tick, or nothing if no quota may be
// raised.
func (t *ticks) idle() (idle []time.Duration, interval time.Duration) {
	e := t.engine
	if !e.status.Raises.Possible {
		t.load = nil
		return nil, 0
	}
	load, err := cputime.Read(e.kernel.root)
	e.reports.dedup.WarnOrClear("idle", "no quota is raised", err)
	if err != nil {
		return nil, 0
	}
	at := e.Now()
	before, passed := t.load, at.Sub(t.loadAt)
	t.load, t.loadAt = load, at
	if before == nil || passed <= 0 {
		return nil, 0
	}
	return idleBetween(before, load, passed), passed
}
