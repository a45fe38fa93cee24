package schedtrace

import (
	"context"
	"maps"
	"path"
	"slices"
	"sync"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Monitor observes how long the threads of groups wait for CPUs and are throttled, for as long as
// it runs. The groups may change. Its methods may be called concurrently, Run by one goroutine at a
// time.
//
// It needs no list of all threads: a thread is observed from the first event about it on. In a PID
// namespace of its own a process cannot list the threads of others.
type Monitor struct {
	groups  *cgroup.FS
	options Options
	delay   func(group string, d blame.Delay)
	plan    plan // used by Run only

	mu       sync.Mutex // protects the following fields
	wanted   map[string]bool
	changed  bool                   // since the last plan
	subjects map[string]blame.Group // those that exist, by path
	names    map[blame.Group]string // of the subjects
	analysis *blame.Analysis        // nil unless Run is under way
	epoch    int                    // counts analyses
	until    time.Duration          // all events before have been analysed
	cost     Cost
	passed   Cost // of earlier runs
}

// NewMonitor returns a monitor. delay receives each delay of a group's threads when it has ended;
// it must not call methods of the monitor.
func NewMonitor(groups *cgroup.FS, o Options, delay func(group string, d blame.Delay)) *Monitor {
	return &Monitor{groups: groups, options: o, delay: delay}
}

// Set replaces the groups to observe, by path. They need not exist. Groups below them count as
// parts of them, up to 256 for each.
func (m *Monitor) Set(groups []string) {
	wanted := map[string]bool{}
	for _, group := range groups {
		wanted[path.Clean(group)] = true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !maps.Equal(wanted, m.wanted) {
		m.wanted, m.changed = wanted, true
	}
}

// mostInner is how many groups count for one container at most, so that a container that makes
// groups cannot use up the table of all groups that are traced.
const mostInner = 256

// planAgainAfter is how often Monitor looks for groups that were created, or created again.
const planAgainAfter = 10 * time.Second

// Run observes the groups until ctx ends, in which case it returns nil. If tracing costs more than
// it may, the error is a CostError.
func (m *Monitor) Run(ctx context.Context) error {
	t, err := Open(m.options)
	if err != nil {
		return err
	}
	defer t.Close()
	defer m.end(t)
	start, err := t.Start()
	if err != nil {
		return err
	}
	m.plan = plan{}
	m.begin(start)
	checked, planned := time.Duration(0), time.Duration(0)
	t.between = func(until time.Duration) error {
		m.passedUntil(until)
		if until < checked+planEvery {
			return nil
		}
		checked = until
		cost, err := t.Cost()
		if err != nil {
			return err
		}
		if wanted := m.takeWanted(cost, until >= planned+planAgainAfter); wanted != nil {
			planned = until
			return m.follow(t, wanted)
		}
		return nil
	}
	_, err = t.Run(ctx, func(e blame.Event) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if e.Kind == blame.Loss { // what threads have ended is not known
			m.analyse(e.Time)
			return
		}
		m.analysis.Add(e)
	})
	return err
}

func (m *Monitor) begin(start time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.subjects, m.names, m.changed, m.until, m.cost = nil, nil, true, start, Cost{}
	m.analyse(start)
}

func (m *Monitor) end(t *Tracer) {
	cost, err := t.Cost()
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		cost = m.cost // of the last second
	}
	m.analysis = nil
	m.passed, m.cost = m.passed.plus(cost), Cost{}
}

func (m *Monitor) passedUntil(until time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = until
}

// takeWanted returns the groups to observe if they have changed, or if retry is true.
func (m *Monitor) takeWanted(cost Cost, retry bool) map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cost = cost
	if !m.changed && !retry {
		return nil
	}
	m.changed = false
	return m.wanted
}

// analyse begins a new analysis. mu must be locked.
func (m *Monitor) analyse(start time.Duration) {
	m.epoch++
	m.analysis = blame.New(blame.Options{Start: start, Watched: m.plan.watched, Above: m.plan.above, Nameless: true,
		Delay: func(g blame.Group, d blame.Delay) { m.delay(m.names[g], d) }})
}

// follow traces the groups that are wanted now, and those below them. Most of it takes long, so mu
// is not locked then.
func (m *Monitor) follow(t *Tracer, wanted map[string]bool) error {
	ids, err := Groups(m.groups, slices.Collect(maps.Keys(wanted))...)
	m.options.tell(err)
	subjects, names := map[string]blame.Group{}, map[blame.Group]string{}
	for group := range wanted {
		if id, exists := ids[group]; exists {
			subjects[group], names[id] = id, group
		}
	}
	last, next := m.plan, newPlan(ids, subjects, mostInner)
	added, err := t.follow(last, next)
	if err != nil {
		return err
	}
	m.adopt(next, subjects, names)
	for group := range last.trace {
		if next.trace[group] == 0 {
			if err := t.Set(group, 0); err != nil {
				return err
			}
		}
	}
	if added {
		return t.Snapshot()
	}
	return nil
}

func (m *Monitor) adopt(next plan, subjects map[string]blame.Group, names map[blame.Group]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.analysis.Watch(next.watched, next.above)
	for group := range m.plan.trace {
		if next.trace[group] == 0 {
			m.analysis.Forget(group)
		}
	}
	m.plan, m.subjects, m.names = next, subjects, names
}

// Waited is for how long at least one thread of a group has waited for a CPU.
type Waited struct {
	Total time.Duration
	// Until is the time up to which that is known, and Epoch a number that changes when counting
	// begins anew because events were lost.
	Until time.Duration
	Epoch int
}

// Waited returns what a group has waited since it has been observed. It is not known while the
// group is not observed.
func (m *Monitor) Waited(group string) (w Waited, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, observed := m.subjects[path.Clean(group)]
	if m.analysis == nil || !observed {
		return w, false
	}
	return Waited{m.analysis.Waited(id, m.until), m.until, m.epoch}, true
}

// Cost returns what all runs together have cost, and whether one is under way.
func (m *Monitor) Cost() (c Cost, running bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.passed.plus(m.cost), m.analysis != nil
}
