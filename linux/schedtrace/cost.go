package schedtrace

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Cost is what tracing has cost so far.
type Cost struct {
	Lost uint64 // events that the kernel dropped
	// Switches is how often a CPU has switched to another thread, watched or not.
	Switches uint64
	// SwitchTime is the CPU time of the program that runs in each switch, KernelTime that of all
	// programs. They are estimated from one run in 64, and do not include programs that run rarely.
	SwitchTime, KernelTime time.Duration
	// HandleTime is the CPU time that Run has used.
	HandleTime time.Duration
}

func (c Cost) plus(o Cost) Cost {
	return Cost{c.Lost + o.Lost, c.Switches + o.Switches, c.SwitchTime + o.SwitchTime, c.KernelTime + o.KernelTime, c.HandleTime + o.HandleTime}
}

// The kinds of programs whose cost the BPF programs count.
const (
	atSwitch = iota
	others
	programs
)

// programCost is the struct cost of the BPF programs, and cpuCounters their struct counters.
type (
	programCost struct{ Runs, Timed, Time uint64 }
	cpuCounters struct {
		Costs   [programs]programCost
		Pending uint32
		Unused  [3]uint32
	}
)

// counters returns the counters of all CPUs. They are valid until the next call.
func (t *Tracer) counters() (*[maxCPUs]cpuCounters, error) {
	if err := t.kernel.Counters.Get(&t.all); err != nil {
		return nil, fmt.Errorf("read the counters of the programs: %w", err)
	}
	return &t.all, nil
}

// Cost returns what tracing has cost so far.
func (t *Tracer) Cost() (c Cost, err error) {
	c.Lost, c.HandleTime = t.lost, t.handled
	counters, err := t.counters()
	if err != nil {
		return c, err
	}
	var sums [programs]programCost
	for i := range counters {
		for kind, one := range counters[i].Costs {
			sum := &sums[kind]
			sum.Runs, sum.Timed, sum.Time = sum.Runs+one.Runs, sum.Timed+one.Timed, sum.Time+one.Time
		}
	}
	c.Switches, c.SwitchTime = sums[atSwitch].Runs, sums[atSwitch].estimate()
	c.KernelTime = c.SwitchTime + sums[others].estimate()
	return c, nil
}

// estimate returns the time of all runs.
func (c programCost) estimate() time.Duration {
	return time.Duration(float64(c.Time) / float64(max(1, c.Timed)) * float64(c.Runs))
}

// CostError reports that tracing was ended because it cost too much.
type CostError struct {
	Share, Max float64 // of the machine's CPU time
}

func (e *CostError) Error() string {
	return fmt.Sprintf("tracing used %.2g%% of the machine's CPU time, more than %.2g%%: trace fewer groups, or let it use more",
		100*e.Share, 100*e.Max)
}

// meter is what tracing had cost when that was last compared with the limit.
type meter struct{ at, cost time.Duration }

const checkEvery = time.Second

// check returns an error if tracing has cost more than it may since the last check.
func (t *Tracer) check() error {
	if t.options.MaxShare == 0 || Now()-t.meter.at < checkEvery {
		return nil
	}
	cost, err := t.Cost()
	if err != nil {
		return err
	}
	before := t.meter
	t.meter = meter{Now(), cost.KernelTime + cost.HandleTime}
	share := float64(t.meter.cost-before.cost) / float64(t.meter.at-before.at) / float64(t.online)
	if share > t.options.MaxShare {
		return &CostError{share, t.options.MaxShare}
	}
	return nil
}

// threadTime returns the CPU time that this thread has used.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err) // every kernel has this clock
	}
	return time.Duration(ts.Nano())
}
