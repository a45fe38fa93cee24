package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sampler"
)

// tickEvery is how often it is decided whether quotas are raised: the period of most.
const tickEvery = 100 * time.Millisecond

// sampleContainers samples what containers do, until the context ends.
func (e *engine) sampleContainers(ctx context.Context, shortest, retry time.Duration) {
	for ctx.Err() == nil {
		s, err := sampler.New(e.kernel.groups, sampler.Options{Shortest: shortest})
		if err == nil {
			e.mu.Lock()
			e.sampler = s
			s.Set(e.meters.set(e.control.Limited()))
			e.mu.Unlock()
			err = s.Run(ctx, func(t *sampler.Tick) error { e.meters.take(t.Samples); return nil })
		}
		if ctx.Err() == nil {
			e.dedup.warn(e.log, "sampler", "containers are not sampled: no quota is raised, and metrics stand still", err)
			sleep.For(ctx, retry)
		}
	}
}

// tickLoop raises and lowers quotas, until the context ends; then none stays raised.
func (e *engine) tickLoop(ctx context.Context) {
	defer e.lower()
	every(ctx, tickEvery, e.tick)
}

// every calls a function again and again, until the context ends.
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

// tick decides which quotas are to be raised, and writes them. It looks at the groups that
// it is about, and at no others.
func (e *engine) tick() {
	samples, doubtful := e.meters.drain()
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.now()
	t := control.Tick{Now: now.Sub(e.began), Wall: now, Samples: samples}
	t.Idle, t.Interval = e.idle()
	foreign := e.see(append(e.control.RaisedGroups(), doubtful...))
	changes, write := e.control.Raise(t)
	for _, c := range changes {
		e.meters.changed(c)
		e.log.Debug("quota", "pod", c.Container.Namespace+"/"+c.Container.Name, "container", c.Container.Container,
			"raised", c.Raised, "quota", c.Quota, "reason", c.Reason.String())
	}
	if write || foreign {
		e.asked++ // what a round is reading meanwhile may be older
		e.decide()
	}
}

// lower takes back all raises.
func (e *engine) lower() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.control.Lower() {
		e.decide()
	}
}

// see reads what some groups hold, and reports whether somebody else has changed one.
func (e *engine) see(groups []string) (foreign bool) {
	slices.Sort(groups)
	for _, group := range slices.Compact(groups) {
		s, err := e.kernel.groups.ReadParts(group, cgroup.Parts{Bandwidth: true})
		if err == nil { // else it has ended, or the round says what is wrong
			foreign = e.control.See(group, s) || foreign
		}
	}
	return foreign
}

// userTick is the unit of /proc/stat (USER_HZ, which is the same on all architectures that
// Go knows).
const userTick = 10 * time.Millisecond

// idle is how long each CPU was idle since the last tick; nothing where no quota may be
// raised.
func (e *engine) idle() (idle []time.Duration, interval time.Duration) {
	if !e.control.Raises() {
		e.times = nil
		return nil, 0
	}
	times, err := readStat(e.kernel.root)
	e.dedup.warnOrClear(e.log, "idle", "no quota is raised", err)
	if err != nil {
		return nil, 0
	}
	at := e.now()
	before, since := e.times, at.Sub(e.timesAt)
	e.times, e.timesAt = times, at
	if before == nil || since <= 0 {
		return nil, 0
	}
	return idleBetween(before, times, since), since
}

// idleBetween is how long each CPU was idle in an interval, by number.
func idleBetween(before, after map[cpuset.CPU]cpuTimes, interval time.Duration) []time.Duration {
	var idle []time.Duration
	for cpu, now := range after {
		for len(idle) <= int(cpu) {
			idle = append(idle, 0)
		}
		if passed, ok := now.since(before, cpu); ok {
			idle[cpu] = min(interval, time.Duration(passed.total-passed.busy)*userTick)
		}
	}
	return idle
}

// CheckSampleInterval says what is wrong with a time between two samples.
func CheckSampleInterval(d time.Duration) error {
	if d == 0 {
		return nil
	}
	if err := sampler.CheckInterval(d); err != nil {
		return fmt.Errorf("%w; 0 turns sampling off", err)
	}
	return nil
}
