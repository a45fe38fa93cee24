package bandwidthtest

import (
	"fmt"
	"time"
)

// maxCPUs is beyond any machine; a number above it is a mistake.
const maxCPUs = 1 << 20

// Machine is what a Group runs on, and how finely the kernel hands out CPU time
// there. All times are 0 to an hour.
type Machine struct {
	// CPUs that the group has to itself: nobody else takes time from it.
	CPUs int
	// Slice is what a CPU takes from the group's bucket at a time
	// (sched_cfs_bandwidth_slice_us). With 0, the ideal fluid, CPUs that run draw on the
	// bucket at the same rate, and are throttled together when it is empty.
	Slice time.Duration
	// Keep is what a CPU that has nothing to run may keep (min_cfs_rq_runtime); the
	// rest goes back into the bucket.
	Keep time.Duration
	// Tick is how often a CPU that runs looks at what it has used, 1 s / CONFIG_HZ. In
	// between it can use more than it took, and pays that back later. With 0 it looks
	// at the moment when all is used.
	Tick time.Duration
	// TickPhase is when the first Tick is.
	TickPhase time.Duration
	// Slack is how long after a CPU gave time back throttled CPUs are served with it
	// (cfs_bandwidth_slack_period), when at least Margin (min_bandwidth_expiration) is then
	// left of the period, and more than a Slice is in the bucket. With 0 they wait for
	// the next period.
	Slack, Margin time.Duration
	// Turn is how long a request runs before the next one on the same CPU does. With
	// 0 each runs until it is done.
	Turn time.Duration
	// PeriodPhase is when the first period ends; the period's length if it is 0. The kernel
	// draws it when it makes a group.
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

func (m Machine) validate() error {
	if m.CPUs < 1 || m.CPUs > maxCPUs {
		return fmt.Errorf("%d CPUs: a group runs on 1 to %d", m.CPUs, maxCPUs)
	}
	for _, d := range []time.Duration{m.Slice, m.Keep, m.Tick, m.TickPhase, m.Slack, m.Margin, m.Turn, m.PeriodPhase} {
		if d < 0 || d > time.Hour {
			return fmt.Errorf("%+v: a time of a machine is not within 0 to 1h", m)
		}
	}
	if m.Slice == 0 && (m.Keep > 0 || m.Tick > 0 || m.Slack > 0) {
		return fmt.Errorf("%+v: without slices CPUs have nothing to keep, to look at or to give back: Keep, Tick and Slack must be 0", m)
	}
	return nil
}
