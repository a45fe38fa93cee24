package blame

import (
	"slices"
	"time"
)

// thread is the state of a watched thread.
type thread struct {
	Thread
	cpu   int
	state State
	since time.Duration // last charge
	clock time.Duration // Event.Clock at since; 0 if it does not run or the clock is unknown
	parts Parts
	delay *Delay // the present delay, nil if it runs or sleeps
	// throttler is the group whose quota is used up, if state is Throttled.
	throttler Group
}

// regroup moves a thread to another group. Its time so far is charged to the old one.
func (a *Analysis) regroup(t *thread, now Thread) {
	a.charge(t)
	a.endDelay(t)
	a.end(t)
	a.count(a.Watched[t.Group], t.state, -1)
	a.count(a.Watched[now.Group], t.state, 1)
	t.Thread, t.parts = now, Parts{}
	a.beginDelay(t)
}

// doubt makes the state of a thread unknown since its last event, if it is one of the wrong states.
// t may be nil.
func (a *Analysis) doubt(t *thread, wrong ...State) {
	if t == nil || !slices.Contains(wrong, t.state) {
		return
	}
	a.leave(t)
	a.set(t, Unknown)
	a.charge(t)
	a.endDelay(t)
}

// set changes the state of a thread. The time so far must have been charged.
func (a *Analysis) set(t *thread, s State) {
	if t.state == Throttled {
		unmark(a.throttled, t.throttler, t)
	}
	if s != t.state {
		a.count(a.Watched[t.Group], s, 1)
		a.count(a.Watched[t.Group], t.state, -1)
	}
	t.state = s
}

// leave removes a waiting thread from the list of its CPU.
func (a *Analysis) leave(t *thread) {
	if t.state == Waiting {
		c := a.cpu(t.cpu)
		c.waiting = slices.DeleteFunc(c.waiting, func(o *thread) bool { return o == t })
	}
}

// steal moves the time in which a thread ran while its CPU's clock stopped from Running to Stolen.
// The times of events and clocks are read at slightly different moments. So the difference may be
// slightly negative; that reduces earlier stolen time.
func (a *Analysis) steal(t *thread, clock time.Duration) {
	if t.state != Running || t.clock == 0 || clock == 0 || t.since < a.Start {
		return
	}
	stolen := a.now - t.since - (clock - t.clock)
	if stolen = max(stolen, -t.parts.Stolen); stolen > a.now-t.since {
		return // the clock was set back
	}
	t.parts.Stolen += stolen
	t.parts.Running -= stolen
}

// release makes a throttled thread wait, unless another quota still throttles it.
func (a *Analysis) release(t *thread) {
	throttler := a.throttledAbove(t)
	if throttler == 0 {
		c := a.cpu(t.cpu)
		c.runsKnown = a.followed(t.cpu)
		a.become(t, Waiting, t.cpu, 0)
		return
	}
	unmark(a.throttled, t.throttler, t)
	t.throttler = throttler
	mark(a.throttled, throttler, t)
}

// throttledAbove returns the nearest group whose quota is used up on the CPU of a thread, or 0.
func (a *Analysis) throttledAbove(t *thread) Group {
	for g := t.Group; g != 0; g = a.Above[g] {
		if a.exhausted[g][t.cpu] {
			return g
		}
	}
	return 0
}

// become changes the state of a thread.
func (a *Analysis) become(t *thread, s State, cpu int, throttler Group) {
	a.charge(t)
	a.leave(t)
	a.set(t, s)
	t.cpu, t.throttler = cpu, throttler
	switch s {
	case Dead:
		a.remove(t)
	case Waiting:
		c := a.cpu(cpu)
		c.waiting = append(c.waiting, t)
	case Throttled:
		mark(a.throttled, throttler, t)
		if throttler != 0 {
			mark(a.exhausted, throttler, cpu)
		}
	}
	a.beginDelay(t)
}

// beginDelay begins a delay if a thread waits or is throttled, and ends it otherwise.
func (a *Analysis) beginDelay(t *thread) {
	if wants := t.state == Waiting || t.state == Throttled; !wants {
		a.endDelay(t)
	} else if t.delay == nil {
		t.delay = &Delay{Thread: t.Thread, From: a.now}
	}
}

// charge adds the time since the last charge of a thread to its parts.
func (a *Analysis) charge(t *thread) {
	from := max(t.since, a.Start)
	t.since, t.clock = a.now, 0
	d := a.now - from
	if d <= 0 {
		return
	}
	var by Occupant
	if t.state == Waiting {
		by = a.occupant(a.cpu(t.cpu))
	}
	group := a.Watched[t.Group]
	t.parts.Count(t.state, by, group, d)
	if t.delay != nil {
		t.delay.Count(t.state, by, group, d)
	}
	if a.Span != nil {
		a.Span(Span{t.Thread, t.cpu, t.state, by, from, a.now})
	}
}

func (a *Analysis) endDelay(t *thread) {
	if t.delay != nil && t.delay.Delayed() > 0 {
		group := a.Watched[t.Group]
		sum := a.account(group)
		sum.Longest = insert(sum.Longest, *t.delay, a.Longest)
		sum.Waits.add(t.delay.Waiting())
		sum.Throttlings.add(t.delay.Throttled)
		if a.Delay != nil {
			a.Delay(group, *t.delay)
		}
	}
	t.delay = nil
}

// remove ends the observation of a thread.
func (a *Analysis) remove(t *thread) {
	a.charge(t)
	a.leave(t)
	a.set(t, Dead)
	a.endDelay(t)
	a.end(t)
	delete(a.threads, t.ID)
}
