package burst

import (
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/must"
)

const ms = time.Millisecond

// fataler is a test of package testing or rapid.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// machine is a node that advances in steps of a millisecond. All groups share all CPUs. What they
// leave, others use, or the CPUs are idle.
type machine struct {
	now    time.Duration
	cpus   int
	others rate // usage of others, which comes first
	batch  rate // how much batch work would use, which comes last
	idle   time.Duration
	worked time.Duration // by batch work
	groups []*group
	since  time.Duration // when idle and worked were reset
}

// group is a container's cgroup and its load.
type group struct {
	name   string
	base   bandwidth.Limits
	policy Policy
	kernel bandwidthtest.Controller
	load   load
	queue  time.Duration // CPU time that was wanted and is not in the kernel model yet

	seen    bandwidthtest.Stats
	seenAt  time.Duration
	writes  int
	missing bool // without samples
	broken  bool // without effect of writes
	changes int  // of the quota
}

// load wants an amount of CPU time at the beginning of every interval, with a number of threads.
type load struct {
	amount, every time.Duration
	threads       int
}

func newGroup(t fataler, name string, base bandwidth.Limits, p Policy, l load) *group {
	t.Helper()
	kernel := must.Get(bandwidthtest.NewController(base))(t)
	return &group{name: name, base: base, policy: p, kernel: kernel, load: l}
}

// run lets time pass.
func (m *machine) run(d time.Duration) {
	for range d / ms {
		m.step()
	}
}

func (m *machine) step() {
	left := time.Duration(m.cpus) * ms
	left -= min(left, m.others.in(ms))
	for i := range m.groups {
		g := m.groups[(i+int(m.now/ms))%len(m.groups)] // each group is first at times
		left -= g.step(m.now, left)
	}
	left = max(0, left)
	worked := min(left, m.batch.in(ms))
	m.idle, m.worked = m.idle+left-worked, m.worked+worked
	m.now += ms
	for _, g := range m.groups {
		if m.now%g.kernel.Limits().Period == 0 {
			g.kernel.Tick()
		}
	}
}

// step lets the group use at most left, beside what the kernel model already has.
func (g *group) step(now, left time.Duration) time.Duration {
	if g.load.every > 0 && now%g.load.every == 0 {
		g.queue = min(g.queue, g.load.amount) + g.load.amount // older requests give up
	}
	room := min(left, time.Duration(g.load.threads)*ms)
	fed := max(0, min(g.queue, room-g.kernel.Backlog()))
	g.queue -= fed
	return g.kernel.Use(fed)
}

// tick returns the state of the machine since the last tick.
func (m *machine) tick() Tick {
	t := Tick{Now: m.now, Interval: m.now - m.since, Batch: m.worked, BatchCPUs: cpuset.Range(0, cpuset.CPU(m.cpus-1))}
	for range m.cpus {
		t.Idle = append(t.Idle, m.idle/time.Duration(m.cpus))
	}
	m.idle, m.worked, m.since = 0, 0, m.now
	for _, g := range m.groups {
		t.Containers = append(t.Containers, g.container(m.now, m.cpus))
	}
	return t
}

func (g *group) container(now time.Duration, cpus int) Container {
	c := Container{ID: g.name, Base: g.base, Policy: g.policy, Present: g.kernel.Limits(), Writes: g.writes,
		CPUs: cpuset.Range(0, cpuset.CPU(cpus-1))}
	g.writes = 0
	if !g.missing {
		s := g.kernel.Stats()
		c.Sample = trace.Sample{Interval: now - g.seenAt, Usage: s.Usage - g.seen.Usage,
			Periods: uint32(s.Periods - g.seen.Periods), Throttled: uint32(s.Throttled - g.seen.Throttled)}
		g.seen, g.seenAt = s, now
	}
	return c
}

// obey carries out decisions.
func (m *machine) obey(t fataler, decisions []Decision) {
	t.Helper()
	for i, d := range decisions {
		if d.Write {
			g := m.groups[i]
			l := g.kernel.Limits()
			l.Quota = d.Quota
			g.write(t, l)
		}
	}
}

func (g *group) write(t fataler, l bandwidth.Limits) {
	t.Helper()
	g.writes++
	if g.broken {
		return
	}
	g.changes++
	must.Do(t, g.kernel.Write(l))
}
