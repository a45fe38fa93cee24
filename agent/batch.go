package agent

import (
	"errors"
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/schedtrace"
)

// batchUsage is what was read at the last tick that bounded batch pods.
type batchUsage struct {
	at                   time.Time
	all, excluded, batch cgroup.Meter
	waits                map[string]waiting // of online containers, by path
}

// waiting is what a container has waited for CPUs so far, and how often it was throttled. If that is not
// traced (Epoch is 0), waiting includes the time in which it was throttled.
type waiting struct {
	schedtrace.Waited
	throttled uint64
}

// setBatch passes on what was decided about batch pods after a tick, which is nil if they are not bounded.
func (e *engine) setBatch(after colocation.Decision, tick *colocation.Tick) {
	if tick == nil {
		return
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

// batchTick measures what batch pods, and everything else on the shared CPUs, have used since the last
// tick, and what online containers have waited. It returns nil if batch pods are not bounded.
func (e *engine) batchTick(now time.Time) *colocation.Tick {
	if !e.status.Batch.Bounded {
		e.batchUsed = batchUsage{}
		return nil
	}
	t := &colocation.Tick{Now: now.Sub(e.began), Unsampled: true, WaitUnknown: true}
	groups := e.kernel.groups
	everything, err := groups.Everything()
	e.dedup.WarnOrClear("batch", "batch pods get the least budget: the usage of the machine is not known", err)
	if err != nil {
		e.batchUsed = batchUsage{}
		return t
	}
	all, knownAll := e.batchUsed.all.Used(groups, everything)
	excluded, knownExcluded := e.batchUsed.excluded.Used(groups, e.status.Batch.Excluded)
	batch, knownBatch := e.batchUsed.batch.Used(groups, []string{e.status.Batch.Tier})
	passed := now.Sub(e.batchUsed.at)
	e.batchUsed.at = now
	waited, knownWait := e.longestWait(now)
	if passed <= 0 || !knownAll || !knownExcluded || !knownBatch {
		return t
	}
	t.Unsampled, t.WaitUnknown = false, !knownWait
	t.Others, t.Batch = quantity.CPUs(max(0, all-excluded))/quantity.CPUs(passed), quantity.CPUs(batch)/quantity.CPUs(passed)
	if t.Waited = waited; knownWait {
		e.onlineWait.Observe(t.Waited.Seconds())
	}
	return t
}

// longestWait returns the longest time that an online container has waited for CPUs since the last
// tick, scaled to the length of a tick, without those that were throttled. It is not known at the first tick,
// without an objective, or if there are online containers but it is known of none.
func (e *engine) longestWait(now time.Time) (longest time.Duration, known bool) {
	if e.Batch.Objective == 0 {
		return 0, false
	}
	before := e.batchUsed.waits
	e.batchUsed.waits = map[string]waiting{}
	online := e.status.Batch.Online
	known = before != nil && len(online) == 0
	for _, group := range online {
		w, err := e.waitingOf(group, now)
		if err != nil {
			continue // it has ended
		}
		e.batchUsed.waits[group] = w
		last, ok := before[group]
		passed := w.Until - last.Until
		if !ok || w.Epoch != last.Epoch || passed <= 0 {
			continue
		}
		if w.throttled == last.throttled {
			longest = max(longest, time.Duration(float64(w.Total-last.Total)*float64(tickEvery)/float64(passed)))
		}
		known = true
	}
	return longest, known
}

// waitingOf returns what a container has waited: traced, or else by its pressure.
func (e *engine) waitingOf(group string, now time.Time) (waiting, error) {
	if e.delays != nil {
		if w, known := e.delays.monitor.Waited(group); known {
			return waiting{Waited: w}, nil
		}
	}
	pressure, err := e.pressure(group)
	stat, errStat := e.kernel.groups.Stat(group)
	return waiting{schedtrace.Waited{Total: pressure.Total, Until: now.Sub(e.began)}, stat.Throttled}, errors.Join(err, errStat)
}

// checkWaiting returns an error if this machine cannot tell what containers wait.
func (e *engine) checkWaiting() error {
	_, err := e.pressure("/")
	if err == nil {
		return nil
	}
	if e.delays == nil {
		return fmt.Errorf("%w; or trace it (--trace-percent)", err)
	}
	t, errTrace := schedtrace.Open(schedtrace.Options{})
	if errTrace != nil {
		return errors.Join(err, errTrace)
	}
	return t.Close()
}
