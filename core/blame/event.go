package blame

import (
	"fmt"
	"time"
)

// Group identifies a cgroup: the inode number of its directory. 0 is unknown.
type Group uint64

// Thread is a thread with its process and group at the time of an event.
type Thread struct {
	ID, Process int // ID 0 is the idle thread of a CPU
	Group       Group
}

// Kind is the kind of an event.
type Kind uint16

// The kinds of event. The BPF program has the same numbers.
const (
	// Switch: CPU stops running Thread, whose state is now State, and runs Other.
	Switch Kind = iota + 1
	// Wakeup: Thread wants to run, on CPU, which runs Other.
	Wakeup
	// Migrate: Thread, which does not run, goes to CPU, which runs Other.
	Migrate
	// Edge: the timer of the quota of Thread.Group has refilled it.
	Edge
	// StillThrottled precedes an Edge after which threads of Thread.Group remain throttled on CPU.
	StillThrottled
	// Snapshot: Thread is in State.
	Snapshot
	// Attach: Thread is now in its group, with all threads of its process if Whole.
	Attach
	// Exec: Thread had the ID Other.ID before it executed a program.
	Exec
	// Loss: events are missing. All states are unknown until further events.
	Loss
)

// State is what a thread does.
type State uint16

// The states of a thread. The BPF program has the same numbers.
const (
	Unknown State = iota
	Running
	Waiting   // wants to run, and waits for a CPU
	Throttled // wants to run, and the quota of its group or of one above is used up
	Sleeping
	Dead
)

// wants reports whether the thread wants to run.
func (s State) wants() bool { return s == Running || s == Waiting || s == Throttled }

// String returns the state in words.
func (s State) String() string {
	names := []string{"unknown", "running", "waiting", "throttled", "sleeping", "dead"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("state %d", uint16(s))
}

// Event is an event of the scheduler.
type Event struct {
	Time   time.Duration // on the monotonic clock of the machine
	Kind   Kind
	CPU    int
	Thread Thread
	State  State // of Thread
	Other  Thread
	// Throttler is the group whose quota throttles Thread. Before Linux 6.18, a quota throttles a
	// whole queue (WholeQueue): all threads on CPU that belong to Throttler or its descendants.
	Throttler  Group
	WholeQueue bool
	Whole      bool // all threads of the process; see Attach
	// Clock is the CPU's clock of task time at a Switch: it stops during interrupts and stolen time,
	// as far as the kernel measures these. 0 is unknown.
	Clock time.Duration
	Quota *Quota // of an Edge
}

// Quota is the state of a group's quota after a refill by its timer.
type Quota struct {
	Before, Left  time.Duration // CPU time left in the period, before and after
	Periods       uint32        // nr_periods
	Throttled     uint32        // nr_throttled
	ThrottledTime time.Duration // throttled_time, throttled_usec
}
