package agent

import (
	"context"
	"time"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/quota"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sampler"
)

// tickEvery is the interval at which raising quotas is decided: the most common period.
const tickEvery = 100 * time.Millisecond

// sampleSpacing bounds what sampling the containers of one pod costs, some 1.5% of a CPU: those of
// a pod with more than a hundred are sampled less often than once in their period.
const sampleSpacing = time.Millisecond

// sampleContainers samples the usage and throttling of containers until the context ends.
func (e *engine) sampleContainers(ctx context.Context) {
	for ctx.Err() == nil {
		s, err := sampler.New(e.kernel.groups, sampler.Options{Shortest: e.SampleInterval, Spacing: sampleSpacing})
		if err == nil {
			e.with(func(*control.Control) {
				e.sampler = s
				s.Set(e.meters.set(e.status.Limited()))
			})
			err = s.Run(ctx, func(t *sampler.Tick) error { e.meters.add(t.Samples); return nil })
		}
		if ctx.Err() == nil {
			e.dedup.Warn("sampler", "containers are not sampled: no quota is raised, and metrics are not updated", err)
			sleep.For(ctx, e.RetryAfter)
		}
	}
}

// tickLoop raises and lowers quotas until the context ends, and then lowers all that are raised.
func (e *engine) tickLoop(ctx context.Context) {
	defer e.with(func(c *control.Control) {
		if c.Tick(control.Tick{Tick: quota.Tick{Last: true}}).Write {
			e.decide()
		}
	})
	every(ctx, tickEvery, e.tick)
}

// every calls a function periodically until the context ends.
func every(ctx context.Context, period time.Duration, do func()) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			do()
		}
	}
}

// tick decides which quotas to raise or lower and what batch pods may use, and writes the quotas.
// It reads the settings only of cgroups whose quota is raised or whose limits have changed.
func (e *engine) tick() {
	samples, changed := e.meters.drain()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	t := control.Tick{Tick: quota.Tick{Now: now.Sub(e.began), Wall: now, Samples: samples}}
	t.Idle, t.Interval = e.idle()
	if t.Interval > 0 {
		t.Behind, _ = e.tickUsed.Used(e.kernel.groups, e.status.Raises.Behind)
	}
	t.Colocation = e.batchUsage.Measure(t.Now, &e.status.Batch)
	t.Present = e.readBandwidth(append(changed, e.status.Raises.Raised...))
	done := e.control.Tick(t)
	e.setBatch(done.Batch, t.Colocation)
	for _, c := range done.Changes {
		e.meters.count(c)
		e.Log.Debug("quota", "pod", c.Container.Namespace+"/"+c.Container.Name, "container", c.Container.Ref.Container,
			"raised", c.Raised, "quota", c.Quota, "reason", c.Reason.String())
	}
	if done.Write {
		e.changes++
		e.decide()
	}
}

// setBatch passes on what was decided about batch pods after a tick, which is nil if they are not
// bounded.
func (e *engine) setBatch(after colocation.Decision, tick *colocation.Tick) {
	if tick == nil {
		return
	}
	if !tick.WaitUnknown {
		e.onlineWait.Observe(tick.Waited.Seconds())
	}
	before := e.status.Batch.Decision
	e.status.Batch.Decision = after
	e.batchScheduler.SetBudget(e.status.Batch.Budget())
	if after.Budget != before.Budget {
		e.Log.Debug("budget of batch pods", "before", before.Budget, "now", after.Budget, "others", tick.Others,
			"threshold", after.Threshold, "waited", tick.Waited)
	}
	if after.Capacity != before.Capacity || after.Starved != before.Starved || before.Budget == 0 && after.Budget > 0 {
		e.publishSoon()
	}
}

// readBandwidth reads the bandwidth of cgroups.
func (e *engine) readBandwidth(groups []string) map[string]cgroup.Settings {
	present := make(map[string]cgroup.Settings, len(groups))
	for _, group := range groups {
		s, err := e.kernel.groups.ReadParts(group, cgroup.Parts{Bandwidth: true})
		if err == nil { // else it has ended, or the next round reports the error
			present[group] = s
		}
	}
	return present
}

// idle returns how long each CPU was idle since the last tick, or nothing if no quota may be
// raised.
func (e *engine) idle() (idle []time.Duration, interval time.Duration) {
	if !e.status.Raises.Possible {
		e.tickLoad = nil
		return nil, 0
	}
	load, err := readStat(e.kernel.root)
	e.dedup.WarnOrClear("idle", "no quota is raised", err)
	if err != nil {
		return nil, 0
	}
	at := e.Now()
	before, passed := e.tickLoad, at.Sub(e.tickedAt)
	e.tickLoad, e.tickedAt = load, at
	if before == nil || passed <= 0 {
		return nil, 0
	}
	return idleBetween(before, load, passed), passed
}
