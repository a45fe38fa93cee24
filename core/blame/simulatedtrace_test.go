package blame

import (
	"cmp"
	"slices"
	"time"
)

// trace is the trace of a simulated kernel, and what threads really did.
type trace struct {
	tracing   bool           // events are sent
	named     map[place]bool // quotas that are used up, as events have told
	events    []Event
	observing bool   // time counts
	spans     []Span // of observed threads
	stolen    map[Thread]time.Duration
	delays    map[Group][]time.Duration
	renamed   map[Thread]Thread // by Exec
}

// watches reports whether a thread, which may be nil, is watched.
func (k *kernel) watches(x *task) bool { return x != nil && k.options.Watched[x.Group] != 0 }

// pass lets time pass.
func (k *kernel) pass(d time.Duration) {
	for _, x := range k.tasks {
		if k.observing && x.observed && d > 0 {
			k.spans = append(k.spans, Span{x.Thread, x.cpu, x.state, k.behind(x), k.now, k.now + d})
			if x.state == Waiting || x.state == Throttled {
				x.delay += d
			}
		}
	}
	for _, c := range k.cpus {
		c.clock += d
	}
	k.now += d
}

// stopClock notes how much time was stolen from a thread that has stopped running. It may be nil.
func (k *kernel) stopClock(x *task, stopped Event) {
	if x != nil && x.ran != nil && k.observing && x.ran.Time >= k.options.Start {
		k.stolen[x.Thread] += stopped.Time - x.ran.Time - (stopped.Clock - x.ran.Clock)
	}
}

// endDelay notes that a thread runs, or is in another group.
func (k *kernel) endDelay(x *task) {
	if g := k.options.Watched[x.Group]; x.delay > 0 {
		k.delays[g] = append(k.delays[g], x.delay)
	}
	x.delay = 0
}

// behind returns what a thread waits behind, as far as events tell.
func (k *kernel) behind(x *task) Occupant {
	c := k.cpus[x.cpu]
	switch {
	case x.state != Waiting:
		return Occupant{}
	case !c.reported:
		return Occupant{Process: -1}
	}
	runs := c.runs.thread()
	return Occupant{cmp.Or(k.options.Watched[runs.Group], runs.Group), runs.Process}
}

// followed reports whether the next switch of a CPU is sent in any case, because a watched thread
// runs or waits there.
func (k *kernel) followed(cpu int) bool {
	return slices.ContainsFunc(k.tasks, func(x *task) bool {
		return x.observed && x.cpu == cpu && (x.state == Running || x.state == Waiting)
	})
}

// learn notes that an event tells what a CPU runs, and has run since threads wait there.
func (k *kernel) learn(cpu int) {
	if k.cpus[cpu].reported || !k.tracing {
		return
	}
	k.cpus[cpu].reported = true
	for _, x := range k.tasks {
		for i := range k.spans {
			if s := &k.spans[i]; s.Thread == x.Thread && s.From >= x.since && x.state == Waiting && x.cpu == cpu {
				s.By = k.behind(x)
			}
		}
	}
}

// unlearn notes that switches of some CPUs are not sent any more.
func (k *kernel) unlearn() {
	for n, c := range k.cpus {
		c.reported = c.reported && k.followed(n)
	}
}

// hidden reports whether the quota of a group, or of one above it, is used up on a CPU and no event
// has told it.
func (k *kernel) hidden(g Group, cpu int) bool {
	g = k.exhausted(g, cpu)
	return g != 0 && !k.named[place{g, cpu}]
}

// send sends an event now.
func (k *kernel) send(e Event) Event {
	e.Time = k.now
	if k.tracing {
		k.events = append(k.events, e)
	}
	return e
}

// tell sends an event about a thread that is on a CPU now.
func (k *kernel) tell(kind Kind, x *task, state State) {
	if k.watches(x) {
		k.learn(x.cpu)
		k.send(Event{Kind: kind, CPU: x.cpu, Thread: x.Thread, State: state, Throttler: x.level, Other: k.cpus[x.cpu].runs.thread()})
		k.observe(x)
	}
}

// snapshot sends the state of a thread.
func (k *kernel) snapshot(x *task) {
	if !k.watches(x) {
		return
	}
	if x.state == Running {
		k.learn(x.cpu)
	}
	k.send(Event{Kind: Snapshot, CPU: x.cpu, Thread: x.Thread, State: x.state, Throttler: x.level})
	k.observe(x)
}

// observe notes that an event has told what a thread does. It may be nil.
func (k *kernel) observe(x *task) {
	if !k.tracing || !k.watches(x) {
		return
	}
	x.observed = true
	if x.level != 0 {
		k.named[place{x.level, x.cpu}] = true
	}
}
