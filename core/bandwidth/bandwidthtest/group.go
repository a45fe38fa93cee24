package bandwidthtest

import (
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// Group simulates a group's bandwidth controller within periods: requests for CPU time arrive at
// any nanosecond, run on CPUs, are throttled and finish. It is an event simulation in whole
// nanoseconds, without rounding.
//
// [Group.Advance] advances the time; [Group.Submit] and [Group.Write] act at the current time.
// Events in the same nanosecond happen in this order: requests finish, by CPU; the period's timer;
// the slack timer; CPUs account their usage and take turns; then the caller's actions. Times must
// stay below a hundred years.
type Group struct {
	machine Machine
	pool    pool
	now     time.Duration
	period  time.Duration // when the period ends
	stopped time.Duration // the same when the timer stopped, from where the kernel continues
	slack   time.Duration // when the slack timer fires; < 0 if it is not set
	cpus    []cpu
	// throttled CPUs, in the order in which they were throttled.
	throttled []int
	submitted int
	done      []Done
	stats     Stats
}

// AnyCPU lets the Group choose the CPU: the one with the shortest queue and, among these, the
// lowest number. An idle CPU pulls a waiting request from the longest queue.
const AnyCPU = -1

// Request is a demand for CPU time by one thread.
type Request struct {
	Work time.Duration // > 0, at most MaxQuota
	CPU  int           // the only CPU it may run on, or AnyCPU
}

// Done reports when a request finished.
type Done struct {
	ID int // returned by Submit
	At time.Duration
}

// never is later than any event.
const never = time.Duration(1<<63 - 1)

// NewGroup returns a group at time 0 that has been idle for some periods: its bucket is full and
// its timer has stopped. Its CPUs hold no CPU time; in the kernel each may have kept up to Keep.
func NewGroup(m Machine, l bandwidth.Limits) (*Group, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("model a group: %w", err)
	}
	return newGroup(m, l), nil
}

func newGroup(m Machine, l bandwidth.Limits) *Group {
	g := &Group{machine: m, pool: fullPool(l), slack: -1, cpus: make([]cpu, m.CPUs)}
	g.period = m.PeriodPhase
	if g.period == 0 {
		g.period = l.Period
	}
	g.stopped = g.period
	return g
}

// Now returns the current simulated time.
func (g *Group) Now() time.Duration { return g.now }

// Limits returns the settings in force.
func (g *Group) Limits() bandwidth.Limits { return g.pool.limits }

// Stats returns the counters up to now. As in the kernel, throttled time of a CPU is counted when
// its throttling ends.
func (g *Group) Stats() Stats { return g.stats }

// Backlog returns the CPU time that was submitted and not yet used.
func (g *Group) Backlog() time.Duration {
	var sum time.Duration
	for i := range g.cpus {
		for _, r := range g.cpus[i].queue {
			sum += r.left
		}
	}
	return sum
}

// Submit submits a request at the current time and returns its number, counted from 0.
func (g *Group) Submit(r Request) int {
	id := g.submitted
	g.submitted++
	g.gather()
	i := r.CPU
	if i == AnyCPU {
		i = g.shortest()
	}
	g.enqueue(i, request{id: id, left: r.Work, pinned: r.CPU != AnyCPU})
	g.deal()
	return id
}

// Write simulates one write of settings to the kernel, whether they differ or not: it refills the
// bucket by one quota (burst is counted as at the end of a period), and every CPU starts again
// unthrottled, without held time or debt. After an error nothing has changed. A new period takes
// effect at the end of the current one.
func (g *Group) Write(l bandwidth.Limits) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("write bandwidth settings: %w", err)
	}
	g.write(l)
	return nil
}

func (g *Group) write(l bandwidth.Limits) {
	g.gather()
	wasActive := g.pool.active
	g.pool.write(l, &g.stats)
	if g.pool.active && !wasActive {
		g.startTimer()
	}
	for i := range g.cpus {
		// 1 ns since Linux 6.18 (956dfda6a708), 0 before
		g.cpus[i].local = 1
		if g.fluid() {
			g.cpus[i].local = 0
		}
	}
	for _, i := range g.throttled {
		g.unthrottle(i)
	}
	g.throttled = g.throttled[:0]
	g.deal()
}

// Advance advances the time to until, which must not be before Now, and returns the requests that
// finished, in order. The slice is valid until the next call.
func (g *Group) Advance(until time.Duration) []Done {
	g.done = g.done[:0]
	for {
		next := g.nextEvent()
		if next > until {
			break
		}
		g.run(next)
		g.gather()
		g.handle()
		g.deal()
	}
	if until > g.now {
		g.run(until)
	}
	g.passStopped()
	return g.done
}

// Machine describes the CPUs of a Group and how the kernel distributes CPU time to them. Without
// slices (Slice = 0), Keep, Tick and Slack must be 0.
type Machine struct {
	// CPUs is the number of CPUs, which the group has to itself.
	CPUs int
	// Slice is what a CPU takes from the bucket at a time (sched_cfs_bandwidth_slice_us). With 0,
	// the ideal fluid, running CPUs drain the bucket at equal rates and are throttled together when
	// it is empty.
	Slice time.Duration
	// Keep is what an idle CPU may keep (min_cfs_rq_runtime); the rest returns to the bucket.
	Keep time.Duration
	// Tick is how often a running CPU accounts its usage, 1 s / CONFIG_HZ. In between it can use
	// more than it took, which it repays later. With 0 it accounts at the moment when all is used.
	Tick time.Duration
	// TickPhase is the time of the first Tick.
	TickPhase time.Duration
	// Slack is the delay after which time that a CPU returned is given to throttled CPUs
	// (cfs_bandwidth_slack_period), if the bucket holds more than a Slice and at least Margin
	// (min_bandwidth_expiration) is left of the period by then. With 0 they wait for the next
	// period.
	Slack, Margin time.Duration
	// Turn is how long a request runs before the next one on the same CPU does. With 0 it runs
	// until it is finished.
	Turn time.Duration
	// PeriodPhase is when the first period ends, or 0 for after one period. The kernel draws it at
	// random when it creates a group.
	PeriodPhase time.Duration
}

// Kernel returns a machine with the defaults of Linux 6.18 and 250 ticks per second.
func Kernel(cpus int) Machine {
	const ms = time.Millisecond
	return Machine{CPUs: cpus, Slice: 5 * ms, Keep: ms, Tick: 4 * ms, Slack: 5 * ms, Margin: 2 * ms, Turn: 3 * ms}
}

// Fluid returns the ideal machine: usage is known at once, and no CPU holds time that another one
// needs.
func Fluid(cpus int) Machine {
	return Machine{CPUs: cpus, Turn: 3 * time.Millisecond}
}
