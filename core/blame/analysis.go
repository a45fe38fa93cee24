package blame

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Options configures an analysis.
type Options struct {
	// Start is the time at which the states of all threads are known. Earlier time does not count.
	Start time.Duration
	// Watched maps each traced group to the group to which its threads are charged: itself or an
	// ancestor. For example, the groups that a container makes are charged to the container.
	Watched map[Group]Group
	// Above maps each group to its nearest ancestor with a quota.
	Above map[Group]Group
	// Longest is the number of longest delays to report per group.
	Longest int
	// Nameless bounds the memory of an analysis that never ends: it does not record occupants, nor
	// list threads that ended.
	Nameless bool
	// Delay, if not nil, is called at the end of each delay with the group that is charged.
	Delay func(Group, Delay)
	// Span, if not nil, is called for each span. The spans of a thread follow each other without gaps.
	// When a thread leaves a group, an empty span with the state Dead follows.
	Span func(Span)
}

// Span is an interval in which a thread was in one state, and waited for at most one occupant.
type Span struct {
	Thread   Thread
	CPU      int // on which it runs, waits or last ran
	State    State
	By       Occupant // of CPU, if State is Waiting
	From, To time.Duration
}

// Analysis computes where the time of threads went. Its methods must not be called concurrently.
type Analysis struct {
	Options
	now     time.Duration
	threads map[int]*thread
	cpus    map[int]*cpu
	groups  map[Group]*account
	// exhausted has the CPUs on which a group's quota is used up. stillThrottled has those on which it
	// remains so after the group's next edge. throttled has the threads that a group's quota
	// throttles.
	exhausted, stillThrottled map[Group]map[int]bool
	throttled                 map[Group]map[*thread]bool

	missed int           // see Report.Missed
	inLoss bool          // from a Loss to the next Snapshot
	lost   time.Duration // total time of earlier losses
	lostAt time.Duration // begin of the present loss
}

// cpu is the state of a CPU.
type cpu struct {
	runs      Thread
	runsKnown bool // runs is right as long as watched threads run or wait here
	waiting   []*thread
}

// occupant returns what runs on a CPU.
func (a *Analysis) occupant(c *cpu) Occupant {
	if !c.runsKnown || a.Nameless {
		return unseen
	}
	return Occupant{cmp.Or(a.Watched[c.runs.Group], c.runs.Group), c.runs.Process}
}

// New returns an analysis without events.
func New(o Options) *Analysis {
	return &Analysis{Options: o, threads: map[int]*thread{}, cpus: map[int]*cpu{}, groups: map[Group]*account{},
		exhausted: map[Group]map[int]bool{}, stillThrottled: map[Group]map[int]bool{}, throttled: map[Group]map[*thread]bool{}}
}

// mark adds an element to the set of a group.
func mark[E comparable](sets map[Group]map[E]bool, g Group, one E) {
	if sets[g] == nil {
		sets[g] = map[E]bool{}
	}
	sets[g][one] = true
}

// unmark removes an element from the set of a group.
func unmark[E comparable](sets map[Group]map[E]bool, g Group, one E) {
	if delete(sets[g], one); len(sets[g]) == 0 {
		delete(sets, g)
	}
}

// Add adds an event. If it is older than the last one, it gets the time of that.
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
		mark(a.stillThrottled, e.Thread.Group, e.CPU)
		mark(a.exhausted, e.Thread.Group, e.CPU)
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

// Watch replaces Options.Watched and Options.Above. It ends the observation of threads in groups
// that are no longer watched.
func (a *Analysis) Watch(watched, above map[Group]Group) {
	for _, t := range a.threads {
		if watched[t.Group] != a.Watched[t.Group] {
			a.remove(t)
		}
	}
	a.Watched, a.Above = watched, above
}

// Forget removes the state of a group that is no longer watched.
func (a *Analysis) Forget(g Group) {
	delete(a.groups, g)
	delete(a.exhausted, g)
	delete(a.stillThrottled, g)
}

// Waited returns for how long at least one of a group's threads has waited for a CPU, until a time
// that is not before the last event.
func (a *Analysis) Waited(g Group, until time.Duration) time.Duration {
	return a.account(g).waiting.until(max(a.now, until))
}

// endLoss ends the present loss.
func (a *Analysis) endLoss() { a.lost, a.inLoss = a.lostTime(), false }

// lostTime returns the total time of losses until now.
func (a *Analysis) lostTime() time.Duration {
	if !a.inLoss {
		return a.lost
	}
	return a.lost + max(0, a.now-max(a.lostAt, a.Start))
}

// watches reports whether a thread is in a watched group. The idle threads of all CPUs have the ID
// 0 and are in the root group; they are not threads of that.
func (a *Analysis) watches(t Thread) bool { return t.ID != 0 && a.Watched[t.Group] != 0 }

func (a *Analysis) cpu(n int) *cpu {
	if a.cpus[n] == nil {
		a.cpus[n] = &cpu{}
	}
	return a.cpus[n]
}

// thread returns a watched thread, and moves it to its present group.
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

// switched handles a Switch.
func (a *Analysis) switched(e Event) {
	c := a.cpu(e.CPU)
	if !a.followed(e.CPU) {
		c.runs, c.runsKnown = e.Thread, true // and has run since threads began to wait here
	} else if c.runs.ID != e.Thread.ID {
		a.missed++
		c.runsKnown = false
		a.doubt(a.threads[c.runs.ID], Running)
	}
	a.doubt(a.threads[e.Thread.ID], Waiting, Throttled, Sleeping)
	for _, t := range c.waiting {
		a.charge(t)
	}
	if a.watches(e.Thread) {
		t := a.thread(e.Thread)
		a.steal(t, e.Clock)
		a.become(t, e.State, e.CPU, e.Throttler)
	}
	c.runs, c.runsKnown = e.Other, true
	if a.watches(e.Other) {
		t := a.thread(e.Other)
		a.become(t, Running, e.CPU, 0)
		t.clock = e.Clock
	}
	if e.WholeQueue {
		a.throttle(e.Throttler, e.CPU)
	}
}

// throttle throttles the threads of a group and its descendants that wait on a CPU.
func (a *Analysis) throttle(g Group, cpu int) {
	mark(a.exhausted, g, cpu)
	for _, t := range slices.Clone(a.cpu(cpu).waiting) {
		for above := t.Group; above != 0; above = a.Above[above] {
			if above == g {
				a.become(t, Throttled, cpu, g)
				break
			}
		}
	}
}

// moved handles a Wakeup or a Migrate.
func (a *Analysis) moved(e Event) {
	c := a.cpu(e.CPU)
	if !a.followed(e.CPU) {
		c.runs, c.runsKnown = e.Other, true
	}
	if !a.watches(e.Thread) {
		return
	}
	t := a.thread(e.Thread)
	if t.state == Running { // it was about to sleep
		return
	}
	if e.Other.ID == t.ID {
		e.State = Running
	}
	a.become(t, e.State, e.CPU, e.Throttler)
}

// seen handles a Snapshot.
func (a *Analysis) seen(e Event) {
	a.endLoss()
	if t := a.threads[e.Thread.ID]; !a.watches(e.Thread) || t != nil && t.state != Unknown {
		return // events are newer
	}
	if c := a.cpu(e.CPU); e.State == Running {
		if a.followed(e.CPU) && c.runs.ID != e.Thread.ID {
			return // it has been switched away from since
		}
		c.runs, c.runsKnown = e.Thread, true
	} else if !a.followed(e.CPU) {
		c.runsKnown = false
	}
	a.become(a.thread(e.Thread), e.State, e.CPU, e.Throttler)
}

// followed reports whether the kernel sends all switches of a CPU: watched threads run or wait
// there.
func (a *Analysis) followed(n int) bool {
	c := a.cpu(n)
	runs := a.threads[c.runs.ID]
	return c.runsKnown && (len(c.waiting) > 0 || runs != nil && runs.state == Running && runs.cpu == n)
}

// edge ends the throttling of a group, except on its stillThrottled CPUs.
func (a *Analysis) edge(e Event) {
	g := e.Thread.Group
	a.account(g).edge(e)
	for cpu := range a.exhausted[g] {
		if !a.stillThrottled[g][cpu] {
			unmark(a.exhausted, g, cpu)
		}
	}
	delete(a.stillThrottled, g)
	for t := range maps.Clone(a.throttled[g]) {
		if !a.exhausted[g][t.cpu] {
			a.release(t)
		}
	}
}

// attached handles an Attach.
func (a *Analysis) attached(e Event) {
	for _, c := range a.cpus {
		if c.runsKnown && (c.runs.ID == e.Thread.ID || e.Whole && c.runs.Process == e.Thread.Process) {
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

// renamed handles an Exec.
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

// forget handles a Loss: the states of all threads become unknown.
func (a *Analysis) forget() {
	for _, t := range a.threads {
		a.become(t, Unknown, t.cpu, 0)
	}
	for _, c := range a.cpus {
		c.runsKnown = false
	}
	clear(a.exhausted)
	clear(a.stillThrottled)
	if !a.inLoss {
		a.inLoss, a.lostAt = true, a.now
	}
}
