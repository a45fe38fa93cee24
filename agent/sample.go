package agent

import (
	"context"
	"time"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
)

// sampleLoop tells the state machine how busy the CPUs are, until the context ends.
func (e *engine) sampleLoop(ctx context.Context, period time.Duration) {
	every(ctx, period, func() {
		if e.sample() {
			e.poke()
		}
	})
}

// sample reads the load, and reports whether core sets may follow it.
func (e *engine) sample() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	sets := e.control.CoreSetGroups()
	if len(sets) == 0 { // nobody asks
		e.load = nil
		return false
	}
	load, err := readStat(e.kernel.root)
	e.dedup.warnOrClear(e.log, "load", "core sets do not follow the load", err)
	if err != nil {
		return false
	}
	before := e.load
	e.load = load
	used := e.usedBy(sets)
	if before == nil {
		return false
	}
	e.control.SetUsage(busyBetween(before, load), used)
	return true
}

// usedBy is what containers have used since the last sample.
func (e *engine) usedBy(paths map[nodeplan.Ref]string) map[nodeplan.Ref]ledger.MilliCPU {
	used := map[nodeplan.Ref]ledger.MilliCPU{}
	times := map[string]cpuTime{}
	for ref, path := range paths {
		stat, err := e.kernel.groups.Stat(path)
		if err != nil {
			continue // it has ended, or the round says what is wrong
		}
		now := cpuTime{stat.Usage, e.now()}
		if before, ok := e.used[path]; ok {
			used[ref] = before.between(now)
		}
		times[path] = now
	}
	e.used = times
	return used
}
