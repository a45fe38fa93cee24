package blame

import (
	"slices"
	"time"
)

// thread is what is known of a watched thread.
type thread struct {
	Thread
	cpu   int
	state State
	level Group // whose quota is used up, if state is Throttled
	since time.Duration
	clock time.Duration // of its CPU at that time, if it runs and that is known
	parts Parts
	delay *Delay // since it wanted to run; nil if it runs or sleeps
}

// regroup makes the time of a thread so far that of its old group.
func (a *Analysis) regroup(t *thread, now Thread) {
	a.charge(t)
	a.endDelay(t)
	a.end(t)
	a.count(a.Watched[t.Group], t.state, -1)
	a.count(a.Watched[now.Group], t.state, 1)
	t.Thread, t.parts = now, Parts{}
	a.beginDelay(t)
}

// doubt makes the state of a thread unknown since its last event, if it is one of those that turned out
// to be wrong. t may be nil.
func (a *Analysis) doubt(t *thread, wrong ...State) {
	if t == nil || !slices.Contains(wrong, t.state) {
		return
	}
	a.leave(t)
	a.set(t, Unknown)
	a.charge(t)
	a.endDelay(t)
}

// set changes the state of a thread, whose time has been charged.
func (a *Analysis) set(t *thread, s State) {
	if t.state == Throttled {
		unmark(a.held, t.level, t)
	}
	if s != t.state {
		a.count(a.Watched[t.Group], s, 1)
		a.count(a.Watched[t.Group], t.state, -1)
	}
	t.state = s
}

// leave takes a thread from the list of its CPU if it waits there.
func (a *Analysis) leave(t *thread) {
	if t.state == Waiting {
		c := a.cpu(t.cpu)
		c.waiting = slices.DeleteFunc(c.waiting, func(o *thread) bool { return o == t })
	}
}

// steal moves the time for which a thread was on its CPU and the clock of the CPU stood still to the part
// Stolen. It stops at one instant of the switch and the other at another, so the difference may be a little
// negative; it then is a part of Running.
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

// release makes a throttled thread wait, unless another quota is used up.
func (a *Analysis) release(t *thread) {
	level := a.throttledAbove(t)
	if level == 0 {
		c := a.cpu(t.cpu)
		c.known = a.followed(t.cpu)
		a.become(t, Waiting, t.cpu, 0)
		return
	}
	unmark(a.held, t.level, t)
	t.level = level
	mark(a.held, level, t)
}

// throttledAbove returns a group whose quota is used up on the CPU of a thread, or 0.
func (a *Analysis) throttledAbove(t *thread) Group {
	for g := t.Group; g != 0; g = a.Above[g] {
		if a.levels[g][t.cpu] {
			return g
		}
	}
	return 0
}

// become changes the state of a thread.
func (a *Analysis) become(t *thread, s State, cpu int, level Group) {
	a.charge(t)
	a.leave(t)
	a.set(t, s)
	t.cpu, t.level = cpu, level
	switch s {
	case Dead:
		a.remove(t)
	case Waiting:
		c := a.cpu(cpu)
		c.waiting = append(c.waiting, t)
	case Throttled:
		mark(a.held, level, t)
		if level != 0 {
			mark(a.levels, level, cpu)
		}
	}
	a.beginDelay(t)
}

// beginDelay begins a delay if a thread wants to run and does not, or else ends it.
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
	t.parts.add(t.state, by, d)
	if t.delay != nil {
		t.delay.add(t.state, by, d)
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
