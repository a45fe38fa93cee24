package batch

import (
	"errors"
	"fmt"
	"time"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/schedtrace"
)

// Usage measures, for the budget of batch pods, what these and everything else use on the shared
// CPUs, and what online containers wait for CPUs.
type Usage struct {
	Groups *cgroup.FS
	Dedup  *logdedup.Log
	Waits  bool          // whether waiting is measured
	Tick   time.Duration // for which waiting is given
	// Traced returns what a container has waited so far, if that is traced. Pressure returns its
	// pressure.
	Traced   func(group string) (waited schedtrace.Waited, known bool)
	Pressure func(group string) (cgroupstat.Pressure, error)

	at                   time.Duration // of the last measurement
	all, excluded, batch cgroupstat.Meter
	waits                map[string]waiting // of online containers, by path
}

// waiting is what a container has waited for CPUs so far, and how often it was throttled. If that
// is not traced (Epoch is 0), waiting includes the time in which it was throttled.
type waiting struct {
	schedtrace.Waited
	throttled uint64
}

// Measure returns what was used and waited since the last call. now is monotonic. It returns nil if
// batch pods are not bounded.
func (u *Usage) Measure(now time.Duration, b *control.Batch) *colocation.Tick {
	if !b.Bounded {
		u.forget()
		return nil
	}
	t := &colocation.Tick{Now: now, Unsampled: true, WaitUnknown: true}
	everything, err := cgroupstat.Everything(u.Groups)
	u.Dedup.WarnOrClear("batch", "batch pods get the least budget: the usage of the machine is not known", err)
	if err != nil {
		u.forget()
		return t
	}
	all, knownAll := u.all.Used(u.Groups, everything)
	excluded, knownExcluded := u.excluded.Used(u.Groups, b.Excluded)
	batch, knownBatch := u.batch.Used(u.Groups, []string{b.Tier})
	passed := now - u.at
	u.at = now
	waited, knownWait := u.longestWait(now, b.Online)
	if passed <= 0 || !knownAll || !knownExcluded || !knownBatch {
		return t
	}
	t.Unsampled, t.WaitUnknown, t.Waited = false, !knownWait, waited
	t.Others, t.Batch = quantity.CPUs(max(0, all-excluded))/quantity.CPUs(passed), quantity.CPUs(batch)/quantity.CPUs(passed)
	return t
}

// forget makes the next measurement the first one.
func (u *Usage) forget() {
	u.all, u.excluded, u.batch, u.waits = cgroupstat.Meter{}, cgroupstat.Meter{}, cgroupstat.Meter{}, nil
}

// longestWait returns the longest time that an online container has waited for CPUs since the last
// call, scaled to the length of a tick, without those that were throttled. It is not known at the
// first call, or if there are online containers but it is known of none.
func (u *Usage) longestWait(now time.Duration, online []string) (longest time.Duration, known bool) {
	if !u.Waits {
		return 0, false
	}
	before := u.waits
	u.waits = map[string]waiting{}
	known = before != nil && len(online) == 0
	for _, group := range online {
		w, err := u.waitingOf(group, now)
		if err != nil {
			continue // it has ended
		}
		u.waits[group] = w
		last, ok := before[group]
		passed := w.Until - last.Until
		if !ok || w.Epoch != last.Epoch || passed <= 0 {
			continue
		}
		if w.throttled == last.throttled {
			longest = max(longest, time.Duration(float64(w.Total-last.Total)*float64(u.Tick)/float64(passed)))
		}
		known = true
	}
	return longest, known
}

// waitingOf returns what a container has waited: traced, or else by its pressure.
func (u *Usage) waitingOf(group string, now time.Duration) (waiting, error) {
	if w, known := u.Traced(group); known {
		return waiting{Waited: w}, nil
	}
	pressure, err := u.Pressure(group)
	stat, errStat := cgroupstat.Read(u.Groups, group)
	if inner := kubepods.Inner(u.Groups, group); inner != "" {
		in, _ := cgroupstat.Read(u.Groups, inner) // without it, the scope's count must do
		stat.Throttled += in.Throttled
	}
	return waiting{schedtrace.Waited{Total: pressure.Total, Until: now}, stat.Throttled}, errors.Join(err, errStat)
}

// CheckWaiting returns an error if this machine cannot tell what containers wait. traces is whether
// they are to be traced.
func (u *Usage) CheckWaiting(traces bool) error {
	_, err := u.Pressure("/")
	if err == nil {
		return nil
	}
	if !traces {
		return fmt.Errorf("%w; or trace it (--trace-percent)", err)
	}
	t, errTrace := schedtrace.Open(schedtrace.Options{})
	if errTrace != nil {
		return errors.Join(err, errTrace)
	}
	return t.Close()
}
