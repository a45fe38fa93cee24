package blame

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Options is what an analysis needs to know besides events.
type Options struct {
	// Start is when the states of all threads are known. Time before it does not count.
	Start time.Duration
	// Watched are the groups whose threads are traced, each with the group for which its threads count:
	// itself or one above it, such as a container's for the groups that it makes itself.
	Watched map[Group]Group
	// Above names for each group the next one above it that has a quota.
	Above map[Group]Group
	// Longest is the number of longest delays to report per group.
	Longest int
	// Nameless is for analyses without end, which must not grow: what threads wait behind is not told apart,
	// and threads that have ended are not listed.
	Nameless bool
	// Delay, if not nil, receives each delay when it has ended, with the group for which the thread counts.
	Delay func(Group, Delay)
	// Span, if not nil, receives what each thread did, in pieces: the time of a thread is covered without
	// gaps from its first to its last event. The last piece in a group is empty, and the thread is Dead in it.
	Span func(Span)
}

// Span is a time in which the state of a thread did not change, nor what it waited for.
type Span struct {
	Thread   Thread
	CPU      int // on which it runs, waits or last ran
	State    State
	By       Occupant // what it waits for, if State is Waiting
	From, To time.Duration
}

// Analysis computes where the time of threads went. Its methods must not be called concurrently.
type Analysis struct {
	Options
	now     time.Duration
	threads map[int]*thread
	cpus    map[int]*cpu
	groups  map[Group]*account
	levels  map[Group]map[int]bool     // the CPUs on which a group's quota is used up
	still   map[Group]map[int]bool     // those of the group's next edge
	held    map[Group]map[*thread]bool // the threads that a group's quota throttles
	missed  int
	blind   bool          // events have been lost, and there was no snapshot since
	lost    time.Duration // time in which that was so
	lostAt  time.Duration
}

// cpu is what is known of a CPU.
type cpu struct {
	runs    Thread
	known   bool // runs was right when a watched thread ran or waited here last
	waiting []*thread
}

// occupant returns what runs on a CPU.
func (a *Analysis) occupant(c *cpu) Occupant {
	if !c.known || a.Nameless {
		return Occupant{Process: -1}
	}
	return Occupant{cmp.Or(a.Watched[c.runs.Group], c.runs.Group), c.runs.Process}
}

// New returns an analysis without events.
func New(o Options) *Analysis {
	return &Analysis{Options: o, threads: map[int]*thread{}, cpus: map[int]*cpu{}, groups: map[Group]*account{},
		levels: map[Group]map[int]bool{}, still: map[Group]map[int]bool{}, held: map[Group]map[*thread]bool{}}
}

// mark adds something to the set of a group.
func mark[E comparable](sets map[Group]map[E]bool, g Group, one E) {
	if sets[g] == nil {
		sets[g] = map[E]bool{}
	}
	sets[g][one] = true
}

// unmark removes something from the set of a group.
func unmark[E comparable](sets map[Group]map[E]bool, g Group, one E) {
	if delete(sets[g], one); len(sets[g]) == 0 {
		delete(sets, g)
	}
}

// Add adds an event. An event that is older than the last counts as if it had happened with it.
func (a *Analysis) Add(e Event) {
	e.Time = max(e.Time, a.now)
	a.now = e.Time
	switch e.Kind {
	case Switch:
		a.switched(e)
	case Wakeup, Migrate:
		a.moved(e)
	case Snapshot:
		a.seen(e)
	case StillThrottled:
		mark(a.still, e.Thread.Group, e.CPU)
		mark(a.levels, e.Thread.Group, e.CPU)
	case Edge:
		a.edge(e)
	case Attach:
		a.attached(e)
	case Exec:
		a.renamed(e)
	case Loss:
		a.forget()
	}
}

// Watch replaces the groups that are traced (Options.Watched and Options.Above). Threads of others are not
// observed any more.
func (a *Analysis) Watch(watched, above map[Group]Group) {
	for _, t := range a.threads {
		if watched[t.Group] != a.Watched[t.Group] {
			a.remove(t)
		}
	}
	a.Watched, a.Above = watched, above
}

// Forget removes what is known of a group that is not watched any more.
func (a *Analysis) Forget(g Group) {
	delete(a.groups, g)
	delete(a.levels, g)
	delete(a.still, g)
}

// Waited returns for how long at least one of a group's threads has waited for a CPU, until a time that is
// not before the last event.
func (a *Analysis) Waited(g Group, until time.Duration) time.Duration {
	return a.account(g).waiting.until(max(a.now, until))
}

// endLoss ends the time in which events were lost.
func (a *Analysis) endLoss() { a.lost, a.blind = a.lostTime(), false }

// lostTime returns the time in which events were lost, until now.
func (a *Analysis) lostTime() time.Duration {
	if !a.blind {
		return a.lost
	}
	return a.lost + max(0, a.now-max(a.lostAt, a.Start))
}

func (a *Analysis) cpu(n int) *cpu {
	if a.cpus[n] == nil {
		a.cpus[n] = &cpu{}
	}
	return a.cpus[n]
}

// thread returns a watched thread, with the group that it has now.
func (a *Analysis) thread(id Thread) *thread {
	t := a.threads[id.ID]
	switch {
	case t == nil:
		t = &thread{Thread: id, since: a.now}
		a.threads[id.ID] = t
	case t.Group != id.Group || t.Process != id.Process:
		a.regroup(t, id)
	}
	return t
}

// switched handles a CPU that runs another thread from now on.
func (a *Analysis) switched(e Event) {
	c := a.cpu(e.CPU)
	if !a.followed(e.CPU) {
		c.runs, c.known = e.Thread, true // and has run since threads began to wait here
	} else if c.runs.ID != e.Thread.ID {
		a.missed++
		c.known = false
		a.doubt(a.threads[c.runs.ID], Running)
	}
	a.doubt(a.threads[e.Thread.ID], Waiting, Throttled, Sleeping)
	for _, t := range c.waiting {
		a.charge(t)
	}
	if a.Watched[e.Thread.Group] != 0 {
		t := a.thread(e.Thread)
		a.steal(t, e.Clock)
		a.become(t, e.State, e.CPU, e.Level)
	}
	c.runs, c.known = e.Other, true
	if a.Watched[e.Other.Group] != 0 {
		t := a.thread(e.Other)
		a.become(t, Running, e.CPU, 0)
		t.clock = e.Clock
	}
	if e.Queue {
		a.throttle(e.Level, e.CPU)
	}
}

// throttle throttles the threads of a group, and of those below it, that wait on a CPU.
func (a *Analysis) throttle(g Group, cpu int) {
	mark(a.levels, g, cpu)
	for _, t := range slices.Clone(a.cpu(cpu).waiting) {
		for above := t.Group; above != 0; above = a.Above[above] {
			if above == g {
				a.become(t, Throttled, cpu, g)
				break
			}
		}
	}
}

// moved handles a thread that wants to run, or that goes to another CPU.
func (a *Analysis) moved(e Event) {
	c := a.cpu(e.CPU)
	if !a.followed(e.CPU) {
		c.runs, c.known = e.Other, true
	}
	if a.Watched[e.Thread.Group] == 0 {
		return
	}
	t := a.thread(e.Thread)
	if t.state == Running { // it was about to sleep
		return
	}
	if e.Other.ID == t.ID {
		e.State = Running
	}
	a.become(t, e.State, e.CPU, e.Level)
}

// seen handles a snapshot of a thread.
func (a *Analysis) seen(e Event) {
	a.endLoss()
	if t := a.threads[e.Thread.ID]; a.Watched[e.Thread.Group] == 0 || t != nil && t.state != Unknown {
		return // events have told more
	}
	if c := a.cpu(e.CPU); e.State == Running {
		if a.followed(e.CPU) && c.runs.ID != e.Thread.ID {
			return // it has been switched away from since
		}
		c.runs, c.known = e.Thread, true
	} else if !a.followed(e.CPU) {
		c.known = false
	}
	a.become(a.thread(e.Thread), e.State, e.CPU, e.Level)
}

// followed reports whether all switches of a CPU are sent, because watched threads run or wait there.
func (a *Analysis) followed(n int) bool {
	c := a.cpu(n)
	runs := a.threads[c.runs.ID]
	return c.known && (len(c.waiting) > 0 || runs != nil && runs.state == Running && runs.cpu == n)
}

// edge ends the throttling of a group, except on the CPUs where it goes on.
func (a *Analysis) edge(e Event) {
	g := e.Thread.Group
	a.account(g).edge(e)
	for cpu := range a.levels[g] {
		if !a.still[g][cpu] {
			unmark(a.levels, g, cpu)
		}
	}
	delete(a.still, g)
	for t := range maps.Clone(a.held[g]) {
		if !a.levels[g][t.cpu] {
			a.release(t)
		}
	}
}

// attached handles a thread or a process that has moved to another group.
func (a *Analysis) attached(e Event) {
	for _, c := range a.cpus {
		if c.known && (c.runs.ID == e.Thread.ID || e.Whole && c.runs.Process == e.Thread.Process) {
			for _, t := range c.waiting {
				a.charge(t)
			}
			c.runs.Group = e.Thread.Group
		}
	}
	for id, t := range a.threads {
		if t.Group == e.Thread.Group || id != e.Thread.ID && (!e.Whole || t.Process != e.Thread.Process) {
			continue
		}
		if a.Watched[e.Thread.Group] != 0 {
			a.regroup(t, Thread{id, t.Process, e.Thread.Group})
			if t.state == Throttled {
				a.release(t)
			}
		} else {
			a.remove(t)
		}
	}
}

// renamed handles a thread that has another number.
func (a *Analysis) renamed(e Event) {
	if e.Other.ID == e.Thread.ID {
		return
	}
	if c := a.cpu(e.CPU); c.runs.ID == e.Other.ID {
		c.runs = e.Thread
	}
	if old := a.threads[e.Thread.ID]; old != nil {
		a.remove(old)
	}
	t := a.threads[e.Other.ID]
	switch {
	case t == nil:
		return
	case a.Watched[e.Thread.Group] == 0:
		a.remove(t)
		return
	case t.Group != e.Thread.Group:
		a.regroup(t, e.Thread)
	}
	a.charge(t)
	delete(a.threads, e.Other.ID)
	t.Thread = e.Thread
	a.threads[t.ID] = t
}

// forget makes the states of all threads unknown.
func (a *Analysis) forget() {
	for _, t := range a.threads {
		a.become(t, Unknown, t.cpu, 0)
	}
	for _, c := range a.cpus {
		c.known = false
	}
	clear(a.levels)
	clear(a.still)
	if !a.blind {
		a.blind, a.lostAt = true, a.now
	}
}
