package agent

import (
	"time"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/linux/cgroup"
)

// batchUsage is what was read at the last tick that bounded batch pods.
type batchUsage struct {
	at            time.Time
	all, excluded map[string]time.Duration
}

// suppress decides how much CPU time batch pods may use, and reports whether that has changed.
func (e *engine) suppress(now time.Time) (changed bool) {
	if !e.control.BoundsBatch() {
		e.batchUsed = batchUsage{}
		return false
	}
	others, known := e.othersUsage(now)
	before := e.control.Batch()
	changed = e.control.Suppress(now.Sub(e.began), others, known)
	after := e.control.Batch()
	if changed {
		e.Log.Debug("budget of batch pods", "before", before.Budget, "now", after.Budget, "others", others)
	}
	if after.Capacity != before.Capacity || before.Budget == 0 && after.Budget > 0 {
		e.publishSoon()
	}
	return changed
}

// othersUsage returns the mean usage, since the last tick, of everything on the shared CPUs but
// batch pods. It returns false if that is not known.
func (e *engine) othersUsage(now time.Time) (used quantity.CPUs, known bool) {
	everything, err := e.everything()
	e.dedup.warnOrClear("batch", "batch pods get the least budget: the usage of the machine is not known", err)
	if err != nil {
		e.batchUsed = batchUsage{}
		return 0, false
	}
	all, knownAll := e.usage(everything, &e.batchUsed.all)
	excluded, knownExcluded := e.usage(e.control.Excluded(), &e.batchUsed.excluded)
	passed := now.Sub(e.batchUsed.at)
	e.batchUsed.at = now
	if passed <= 0 || !knownAll || !knownExcluded {
		return 0, false
	}
	return quantity.CPUs(max(0, all-excluded)) / quantity.CPUs(passed), true
}

// everything returns the cgroups that together contain everything that runs. The root's own
// statistics of version 2 are counted in ticks of the timer, which are too coarse here.
func (e *engine) everything() ([]string, error) {
	groups := e.kernel.groups
	if groups.Layout().CPU == cgroup.V1 {
		return []string{"/"}, nil
	}
	return groups.Children(cgroup.CPU, "/")
}

// usage returns the CPU time that cgroups have used since the last call with the same last, which it
// updates. It is complete if the same groups were read then.
func (e *engine) usage(groups []string, last *map[string]time.Duration) (sum time.Duration, complete bool) {
	now := make(map[string]time.Duration, len(groups))
	both := 0
	for _, group := range groups {
		stat, err := e.kernel.groups.Stat(group)
		if err != nil {
			continue // it has ended, or the next round reports the error
		}
		now[group] = stat.Usage
		if before, ok := (*last)[group]; ok {
			both++
			sum += max(0, stat.Usage-before)
		}
	}
	complete = both == len(now) && both == len(*last)
	*last = now
	return sum, complete
}
