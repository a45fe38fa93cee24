package agent

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cputime"
)

// coreSetLoad reads the load that core sets follow. Only its task uses its fields.
type coreSetLoad struct {
	engine *engine
	load   map[cpuset.CPU]cputime.Times // at the last sample
	used   map[string]groupTime         // at the last sample, by path
}

// run passes the load of the CPUs to the state machine, until the context ends.
func (l *coreSetLoad) run(ctx context.Context) {
	wait.NonSlidingUntilWithContext(ctx, func(context.Context) { l.sample() }, l.engine.SampleEvery)
}

// sample reads the load, without the engine's lock.
func (l *coreSetLoad) sample() {
	e := l.engine
	var groups map[nodeplan.Ref]string
	e.with(func(*control.Control) { groups = e.status.CoreSets })
	if len(groups) == 0 {
		l.load = nil
		return
	}
	load, err := cputime.Read(e.kernel.root)
	e.reports.dedup.WarnOrClear("load", "core sets do not follow the load", err)
	if err != nil {
		return
	}
	before := l.load
	l.load = load
	if used := l.usedSince(groups); before != nil {
		e.step(control.Event{Busy: busyBetween(before, load), Used: used})
		e.requestRound()
	}
}

// usedSince returns what containers have used since the last sample.
func (l *coreSetLoad) usedSince(groups map[nodeplan.Ref]string) map[nodeplan.Ref]ledger.MilliCPU {
	used := map[nodeplan.Ref]ledger.MilliCPU{}
	times := map[string]groupTime{}
	for ref, path := range groups {
		stat, err := cgroupstat.Read(l.engine.kernel.groups, path)
		if err != nil {
			continue // it has ended, or the next round reports the error
		}
		now := groupTime{stat.Usage, l.engine.Now()}
		if before, ok := l.used[path]; ok {
			used[ref] = before.until(now)
		}
		times[path] = now
	}
	l.used = times
	return used
}

// groupTime is the CPU time that a cgroup has used since it was created, at some time.
type groupTime struct {
	used time.Duration
	at   time.Time
}

// until returns the mean usage between two readings. It is 0 if the cgroup was created again.
func (t groupTime) until(later groupTime) ledger.MilliCPU {
	elapsed := later.at.Sub(t.at)
	if elapsed <= 0 || later.used < t.used {
		return 0
	}
	return ledger.MilliCPU(int64(later.used-t.used) * 1000 / int64(elapsed))
}

// busyBetween returns the share of time in which each CPU was busy, in thousandths.
func busyBetween(before, after map[cpuset.CPU]cputime.Times) map[cpuset.CPU]ledger.MilliCPU {
	busy := map[cpuset.CPU]ledger.MilliCPU{}
	for cpu, now := range after {
		passed, ok := now.Since(before, cpu)
		if !ok || passed.Total == 0 {
			continue
		}
		if share := ledger.MilliCPU(passed.Busy * 1000 / passed.Total); share > 0 {
			busy[cpu] = share
		}
	}
	return busy
}

// idleBetween returns how long each CPU was idle in an interval, by CPU number.
func idleBetween(before, after map[cpuset.CPU]cputime.Times, interval time.Duration) []time.Duration {
	var idle []time.Duration
	for cpu, now := range after {
		for len(idle) <= int(cpu) {
			idle = append(idle, 0)
		}
		if passed, ok := now.Since(before, cpu); ok {
			idle[cpu] = min(interval, time.Duration(passed.Total-passed.Busy)*cputime.Tick)
		}
	}
	return idle
}
