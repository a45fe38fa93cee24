package blame

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// place is a group on a CPU.
type place struct {
	group Group
	cpu   int
}

// kernel is a simulated scheduler. It does at random what a real one does.
type kernel struct {
	options Options
	groups  []Group // of threads
	cpus    []*processor
	tasks   []*task // those that live
	newest  int     // number of a thread
	now     time.Duration
	usedUp  map[place]bool // quotas
	trace
}

// processor is a CPU.
type processor struct {
	runs     *task // nil if it is idle
	reported bool  // events tell what it runs
	// clock is the clock that stands still while time is stolen.
	clock time.Duration
}

// task is a thread.
type task struct {
	Thread
	cpu   int
	state State
	level Group
	since time.Duration // when it came to its CPU, state or group
	delay time.Duration // since it wanted to run
	ran   *Event        // that made it run, if it has run since under the same name
	// observed is set once an event has named the thread, as long as its group is watched.
	observed bool
	// always is set if it has been observed from the start, under the same name.
	always bool
}

// Groups above watched ones, and groups that are not watched.
const pod, slice, other, another Group = 'p' - 'a' + 1, 'q' - 'a' + 1, 'x' - 'a' + 1, 'y' - 'a' + 1

func newKernel(t *rapid.T) *kernel {
	k := &kernel{
		options: Options{Watched: map[Group]Group{}, Above: map[Group]Group{}, Longest: 3},
		groups:  []Group{other, another},
		usedUp:  map[place]bool{},
		trace: trace{named: map[place]bool{}, stolen: map[Thread]time.Duration{}, delays: map[Group][]time.Duration{},
			renamed: map[Thread]Thread{}},
	}
	for g := range Group(rapid.IntRange(1, 3).Draw(t, "watched")) {
		g++
		k.groups = append(k.groups, g)
		k.options.Watched[g], k.options.Above[g] = g, draw(t, "above", 0, pod)
		if g > 1 && rapid.Bool().Draw(t, "within the first") {
			k.options.Watched[g], k.options.Above[g] = 1, 1
		}
	}
	k.options.Above[pod] = draw(t, "above", 0, slice)
	for range rapid.IntRange(1, 3).Draw(t, "CPUs") {
		k.cpus = append(k.cpus, &processor{clock: 1})
	}
	for range rapid.IntRange(1, 6).Draw(t, "threads") {
		k.create(t)
	}
	return k
}

func draw[T any](t *rapid.T, label string, of ...T) T { return rapid.SampledFrom(of).Draw(t, label) }

// drawTask draws a thread, or skips the action.
func (k *kernel) drawTask(t *rapid.T, is func(*task) bool) *task {
	var tasks []*task
	for _, x := range k.tasks {
		if is(x) {
			tasks = append(tasks, x)
		}
	}
	if len(tasks) == 0 {
		t.SkipNow()
	}
	return draw(t, "thread", tasks...)
}

func (k *kernel) drawCPU(t *rapid.T) int { return rapid.IntRange(0, len(k.cpus)-1).Draw(t, "CPU") }

// actions returns what happens on the machine. An action that is not possible is skipped before it
// draws anything, as rapid stops after some that are skipped later.
func (k *kernel) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){"switch": k.switches, "switch too": k.switches, "wake": k.wakes, "migrate": k.migrates,
		"create": k.create, "edge": k.edge, "attach": k.attach, "exec": k.exec, "steal": k.steal}
	for name, do := range actions {
		actions[name] = func(t *rapid.T) {
			do(t)
			k.unlearn()
			k.pass(time.Duration(rapid.IntRange(0, 9).Draw(t, "ns")))
		}
	}
	return actions
}

// exhausted returns the group nearest to g, itself or above it, whose quota is used up on a CPU, or
// 0.
func (k *kernel) exhausted(g Group, cpu int) Group {
	for g != 0 && !k.usedUp[place{g, cpu}] {
		g = k.options.Above[g]
	}
	return g
}

// enqueue makes a thread want to run on a CPU. If a quota is used up there, it is throttled at
// once, or when it has run.
func (k *kernel) enqueue(t *rapid.T, x *task, cpu int) {
	x.cpu, x.state, x.level, x.since = cpu, Waiting, 0, k.now
	if g := k.exhausted(x.Group, cpu); g != 0 && rapid.Bool().Draw(t, "throttled at once") {
		x.state, x.level = Throttled, g
	}
}

// create creates a thread, in a new process or that of another thread, or in one whose first thread
// has ended.
func (k *kernel) create(t *rapid.T) {
	k.newest++
	x := &task{Thread: Thread{k.newest, k.newest, draw(t, "group", k.groups...)}}
	switch draw(t, "process", "new", "old", "without first thread") {
	case "old":
		if len(k.tasks) > 0 {
			parent := draw(t, "parent", k.tasks...)
			x.Process, x.Group = parent.Process, parent.Group
		}
	case "without first thread":
		k.newest++
		x.ID = k.newest
	}
	k.tasks = append(k.tasks, x)
	k.enqueue(t, x, k.drawCPU(t))
	k.tell(Wakeup, x, x.state)
}

// wakes wakes up a thread that sleeps, on the same or another CPU, or one that was about to sleep.
func (k *kernel) wakes(t *rapid.T) {
	x := k.drawTask(t, func(x *task) bool { return x.state == Sleeping || x.state == Running })
	if x.state == Running {
		k.tell(Wakeup, x, Waiting)
		return
	}
	cpu := k.drawCPU(t)
	if cpu != x.cpu {
		x.cpu = cpu
		k.tell(Migrate, x, Sleeping)
	}
	k.enqueue(t, x, cpu)
	k.tell(Wakeup, x, x.state)
}

// migrates moves a thread that does not run to another CPU.
func (k *kernel) migrates(t *rapid.T) {
	if len(k.cpus) == 1 {
		t.SkipNow()
	}
	x := k.drawTask(t, func(x *task) bool { return x.state != Running })
	cpu := (x.cpu + rapid.IntRange(1, len(k.cpus)-1).Draw(t, "CPUs further")) % len(k.cpus)
	if x.state == Sleeping {
		x.cpu = cpu
	} else {
		k.enqueue(t, x, cpu)
	}
	k.tell(Migrate, x, x.state)
}

// switches makes a CPU run another thread, or none.
func (k *kernel) switches(t *rapid.T) {
	n := k.drawTask(t, func(x *task) bool { return x.state == Running || x.state == Waiting }).cpu
	c := k.cpus[n]
	nexts := slices.DeleteFunc(slices.Clone(k.tasks), func(x *task) bool { return x.state != Waiting || x.cpu != n })
	if c.runs != nil {
		nexts = append(nexts, nil)
	}
	prev, next := c.runs, draw(t, "next", nexts...)
	e := Event{Kind: Switch, CPU: n, Thread: prev.thread(), Other: next.thread(), Clock: c.clock}
	sent := k.followed(n) || k.watches(prev) || k.watches(next)
	if sent {
		k.learn(n)
	}
	if prev != nil {
		k.stop(t, prev)
	}
	if k.watches(prev) {
		e.State, e.Throttler = prev.state, prev.level
	}
	if c.runs = next; next != nil {
		k.endDelay(next)
		next.state, next.level = Running, 0
	}
	if sent {
		e = k.send(e)
		k.stopClock(prev, e)
		k.observe(prev)
		k.observe(next)
		if next != nil && k.tracing {
			next.ran = &e
		}
	}
}

// stop makes a thread do something else than to run.
func (k *kernel) stop(t *rapid.T, x *task) {
	states := []State{Waiting, Sleeping, Sleeping, Dead}
	if k.watches(x) {
		states = append(states, Throttled, Throttled)
	}
	x.state, x.since = draw(t, "state", states...), k.now
	switch x.state {
	case Throttled:
		var levels []Group
		for g := x.Group; g != 0; g = k.options.Above[g] {
			levels = append(levels, g)
		}
		if x.level = k.exhausted(x.Group, x.cpu); x.level == 0 {
			x.level = draw(t, "level", levels...)
		}
		k.usedUp[place{x.level, x.cpu}] = true
	case Dead:
		k.tasks = slices.DeleteFunc(k.tasks, func(o *task) bool { return o == x })
	}
}

// edge hands out CPU time to one or two groups, at the same time but not on all CPUs.
func (k *kernel) edge(t *rapid.T) {
	all := append(slices.Sorted(maps.Keys(k.options.Watched)), pod, slice)
	groups := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 1, 2, rapid.ID).Draw(t, "groups")
	for _, g := range groups {
		for n := range k.cpus {
			if !k.usedUp[place{g, n}] {
				continue
			}
			if rapid.Bool().Draw(t, "still throttled") || k.hidden(k.options.Above[g], n) {
				k.send(Event{Kind: StillThrottled, CPU: n, Thread: Thread{Group: g}})
				k.named[place{g, n}] = k.tracing
			} else {
				delete(k.usedUp, place{g, n})
				delete(k.named, place{g, n})
			}
		}
	}
	for _, g := range groups {
		k.send(Event{Kind: Edge, Thread: Thread{Group: g}})
	}
	k.unlearn()
	for _, x := range k.tasks {
		if !k.usedUp[place{x.level, x.cpu}] {
			k.release(x)
		}
	}
}

// release ends the throttling of a thread by its group, but not by another one.
func (k *kernel) release(x *task) {
	if x.state != Throttled {
		return
	}
	if x.level = k.exhausted(x.Group, x.cpu); x.level == 0 {
		x.state, x.since = Waiting, k.now
	}
}

// attach puts a thread or a process into another group.
func (k *kernel) attach(t *rapid.T) {
	first := k.drawTask(t, func(*task) bool { return true })
	whole := rapid.Bool().Draw(t, "whole")
	to := draw(t, "group", slices.DeleteFunc(slices.Clone(k.groups), func(g Group) bool { return g == first.Group })...)
	moved := slices.DeleteFunc(slices.Clone(k.tasks), func(x *task) bool {
		return x.Group == to || x != first && (!whole || x.Process != first.Process)
	})
	if slices.ContainsFunc(moved, func(x *task) bool { return !k.attachable(x, to) }) {
		return
	}
	for _, x := range moved {
		k.endDelay(x)
		x.Group, x.since, x.always, x.ran = to, k.now, false, nil
		x.observed = x.observed && k.watches(x)
		k.release(x)
	}
	k.send(Event{Kind: Attach, CPU: first.cpu, Thread: first.Thread, Whole: whole})
}

// attachable reports whether events tell what a thread does when it gets to a group.
func (k *kernel) attachable(x *task, to Group) bool {
	return x.state != Throttled || !k.hidden(to, x.cpu)
}

// exec makes the last thread of a process start another program, if it does not have the number of
// the process.
func (k *kernel) exec(t *rapid.T) {
	x := k.drawTask(t, func(x *task) bool {
		return x.state == Running && x.ID != x.Process && !slices.ContainsFunc(k.tasks, func(o *task) bool {
			return o != x && o.Process == x.Process
		})
	})
	old := x.Thread
	x.ID, x.always, x.ran = x.Process, false, nil
	k.renamed[old] = x.Thread
	k.send(Event{Kind: Exec, CPU: x.cpu, Thread: x.Thread, Other: Thread{ID: old.ID}})
}

// steal lets interrupts or a hypervisor use a CPU.
func (k *kernel) steal(t *rapid.T) {
	c, d := k.cpus[k.drawCPU(t)], time.Duration(rapid.IntRange(0, 9).Draw(t, "stolen"))
	k.pass(d)
	c.clock -= d
}

// thread returns the name of a thread. nil is the idle thread.
func (x *task) thread() Thread {
	if x == nil {
		return Thread{}
	}
	return x.Thread
}
