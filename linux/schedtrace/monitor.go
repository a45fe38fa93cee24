package schedtrace

import (
	"context"
	"maps"
	"path"
	"sync"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Monitor observes how long the threads of groups wait for CPUs and are throttled, for as long as it runs.
// The groups may change. Its methods may be called concurrently, Run by one goroutine at a time.
//
// It needs no list of all threads: a thread is observed from the first event about it on. In a PID namespace
// of its own a process cannot list the threads of others.
type Monitor struct {
	groups  *cgroup.FS
	options Options
	delay   func(group string, d blame.Delay)

	mu       sync.Mutex // protects the following fields
	wanted   map[string]bool
	changed  bool                   // since the last plan
	subjects map[string]blame.Group // those that exist, by path
	names    map[blame.Group]string // of the subjects
	plan     plan
	analysis *blame.Analysis // nil unless Run is under way
	until    time.Duration   // all events before have been analysed
	cost     Cost
	passed   Cost // of earlier runs
}

// NewMonitor returns a monitor. delay receives each delay of a group's threads when it has ended; it must
// not call methods of the monitor.
func NewMonitor(groups *cgroup.FS, o Options, delay func(group string, d blame.Delay)) *Monitor {
	return &Monitor{groups: groups, options: o, delay: delay}
}

// Set replaces the groups to observe, by path. They need not exist. Groups below them count as parts of them.
func (m *Monitor) Set(groups []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := map[string]bool{}
	for _, group := range groups {
		wanted[path.Clean(group)] = true
	}
	if !maps.Equal(wanted, m.wanted) {
		m.wanted, m.changed = wanted, true
	}
}

// planAgainAfter is how often groups are looked for that were made below those that are observed, or again.
const planAgainAfter = 10 * time.Second

// Run observes the groups until ctx ends, in which case it returns nil. If tracing costs more than it may,
// the error is a CostError.
func (m *Monitor) Run(ctx context.Context) error {
	t, err := Open(m.options)
	if err != nil {
		return err
	}
	defer t.Close()
	defer m.end()
	start, err := t.Start()
	if err != nil {
		return err
	}
	m.begin(start)
	checked, planned := time.Duration(0), time.Duration(0)
	t.between = func(until time.Duration) (err error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.until = until
		if until < checked+planEvery {
			return nil
		}
		checked = until
		if m.cost, err = t.Cost(); err != nil || !m.changed && until < planned+planAgainAfter {
			return err
		}
		planned, m.changed = until, false
		return m.follow(t)
	}
	_, err = t.Run(ctx, func(e blame.Event) {
		m.mu.Lock()
		defer m.mu.Unlock()
		if e.Kind == blame.Loss { // what threads have ended is not known
			m.analysis = m.newAnalysis(e.Time)
			return
		}
		m.analysis.Add(e)
	})
	return err
}

func (m *Monitor) begin(start time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan, m.subjects, m.until, m.cost = plan{}, nil, start, Cost{}
	m.analysis = m.newAnalysis(start)
}

func (m *Monitor) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.analysis = nil
	m.passed, m.cost = m.passed.plus(m.cost), Cost{}
}

func (m *Monitor) newAnalysis(start time.Duration) *blame.Analysis {
	return blame.New(blame.Options{Start: start, Watched: m.plan.watched, Above: m.plan.above, Delay: func(g blame.Group, d blame.Delay) {
		m.delay(m.names[g], d)
	}})
}

// follow traces the groups that are wanted now, and those below them. mu must be locked.
func (m *Monitor) follow(t *Tracer) error {
	ids := list(m.groups)
	subjects, names := map[string]blame.Group{}, map[blame.Group]string{}
	for group := range m.wanted {
		if id, exists := ids[group]; exists {
			subjects[group], names[id] = id, group
		}
	}
	next := newPlan(ids, subjects)
	added, err := t.follow(m.plan, next)
	if err != nil {
		return err
	}
	m.analysis.Watch(next.watched, next.above)
	for group := range m.plan.trace {
		if next.trace[group] == 0 {
			m.analysis.Forget(group)
			if err := t.Set(group, 0); err != nil {
				return err
			}
		}
	}
	m.plan, m.subjects, m.names = next, subjects, names
	if added {
		return t.Snapshot()
	}
	return nil
}

// Waited returns for how long at least one thread of a group has waited for a CPU since it has been observed.
// It is not known while the group is not observed.
func (m *Monitor) Waited(group string) (total time.Duration, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, observed := m.subjects[path.Clean(group)]
	if m.analysis == nil || !observed {
		return 0, false
	}
	return m.analysis.Waited(id, m.until), true
}

// Cost returns what all runs together have cost, and whether one is under way.
func (m *Monitor) Cost() (c Cost, running bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.passed.plus(m.cost), m.analysis != nil
}
