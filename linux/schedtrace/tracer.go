package schedtrace

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/sysfs"
)

//go:embed schedtrace.o
var object []byte

// objects are the programs and variables of the object file.
type objects struct {
	OnSwitch    *ebpf.Program  `ebpf:"on_switch"`
	OnWakeup    *ebpf.Program  `ebpf:"on_wakeup"`
	OnWakeupNew *ebpf.Program  `ebpf:"on_wakeup_new"`
	OnMigrate   *ebpf.Program  `ebpf:"on_migrate"`
	OnTimer     *ebpf.Program  `ebpf:"on_timer"`
	OnTimerDone *ebpf.Program  `ebpf:"on_timer_done"`
	OnAttach    *ebpf.Program  `ebpf:"on_attach"`
	OnExec      *ebpf.Program  `ebpf:"on_exec"`
	Snapshot    *ebpf.Program  `ebpf:"snapshot"`
	Flush       *ebpf.Program  `ebpf:"flush"`
	Watched     *ebpf.Map      `ebpf:"watched"`
	Events      *ebpf.Map      `ebpf:"events"`
	Lost        *ebpf.Variable `ebpf:"lost"`
	Generation  *ebpf.Variable `ebpf:"generation"`
	Stale       *ebpf.Variable `ebpf:"stale"`
	Counters    *ebpf.Variable `ebpf:"counters"`
}

// traced returns the programs that are attached to tracepoints.
func (o *objects) traced() []*ebpf.Program {
	return []*ebpf.Program{o.OnSwitch, o.OnWakeup, o.OnWakeupNew, o.OnMigrate, o.OnTimer, o.OnTimerDone, o.OnAttach, o.OnExec}
}

// Options configure a Tracer. The zero value is ready to use.
type Options struct {
	// Ring is the size of the ring buffer in bytes, a power of two and a multiple of the page size.
	// The default is 8 MiB.
	Ring int
	// MaxShare is the largest share of the machine's CPU time that tracing may use in a second, the
	// programs in the kernel and the handling of the events together. The default is no limit.
	MaxShare float64
	// Unlisted, if not nil, receives which groups this user may not list. Those below are not traced,
	// and have no names.
	Unlisted func(error)
}

func (o Options) tell(err error) {
	if err != nil && o.Unlisted != nil {
		o.Unlisted(err)
	}
}

// Tracer sends the events of watched groups. Its methods must not be called concurrently.
type Tracer struct {
	options Options
	cpus    int // possible ones
	online  int // at the start
	kernel  objects
	links   []link.Link
	threads *link.Iter
	ring    *ringbuf.Reader
	read    []blame.Event // and not passed on yet
	lost    uint64
	all     [maxCPUs]cpuCounters // when they were last read
	// generation is that of the programs, beginning at 1.
	generation uint32
	passed     time.Duration // the time of the last event that was passed on
	// between is called when all events up to a time have been passed on.
	between func(until time.Duration) error
	handled time.Duration // CPU time that Run has used
	meter   meter
}

// Watch is what is traced of a group.
type Watch uint32

// What is traced of a group. The BPF program has the same numbers.
const (
	Threads Watch = 1 << iota // what its threads do
	Quota                     // the edges of its periods
)

// maxCPUs is MAX_CPUS of the BPF program.
const maxCPUs = 1024

// Open loads the programs into the kernel. Nothing is traced before [Tracer.Start].
func Open(o Options) (*Tracer, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("read the BPF programs: %w", err)
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	cpus = min(cpus, maxCPUs)
	o.Ring = cmp.Or(o.Ring, 8<<20)
	spec.Maps["events"].MaxEntries = uint32(o.Ring)
	if err := errors.Join(
		spec.Variables["nr_cpus"].Set(uint32(cpus)),
		spec.Variables["wake_at"].Set(uint64(o.Ring/8)),
	); err != nil {
		return nil, fmt.Errorf("set up the BPF programs: %w", err)
	}
	machine, _, err := sysfs.Host(cpuset.Set{})
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	t := &Tracer{options: o, cpus: cpus, online: len(machine.CPUs), generation: 1, between: func(time.Duration) error { return nil }}
	if err := spec.LoadAndAssign(&t.kernel, nil); err != nil {
		return nil, explain(err)
	}
	return t, nil
}

// Set sets what is traced of a group, nothing if w is 0. After Start, [Tracer.Snapshot] tells the
// states of its threads.
func (t *Tracer) Set(group blame.Group, w Watch) error {
	var err error
	if w != 0 {
		err = t.kernel.Watched.Put(uint64(group), uint32(w))
	} else if err = t.kernel.Watched.Delete(uint64(group)); err == nil {
		err = t.kernel.Stale.Set(uint32(1))
	} else if errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	if err == nil {
		t.generation++
		err = t.kernel.Generation.Set(t.generation)
	}
	if err != nil {
		return fmt.Errorf("watch control group %d: %w", group, err)
	}
	return nil
}

// Start begins to trace. From the returned time on, the states of all threads are known.
func (t *Tracer) Start() (start time.Duration, err error) {
	if t.ring, err = ringbuf.NewReader(t.kernel.Events); err != nil {
		return 0, fmt.Errorf("open the ring buffer: %w", err)
	}
	for _, p := range t.kernel.traced() {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return 0, explain(err)
		}
		t.links = append(t.links, l)
	}
	if t.threads, err = link.AttachIter(link.IterOptions{Program: t.kernel.Snapshot}); err != nil {
		return 0, explain(err)
	}
	if err := t.Snapshot(); err != nil {
		return 0, err
	}
	start = Now()
	t.meter.at = start
	return start, nil
}

// Snapshot sends the states of all watched threads.
func (t *Tracer) Snapshot() error {
	r, err := t.threads.Open()
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	defer r.Close()
	if _, err = io.Copy(io.Discard, r); err == nil {
		err = t.kernel.Stale.Set(uint32(0)) // threads of groups that are not watched are not counted any more
	}
	if err != nil {
		return fmt.Errorf("list threads: %w", err)
	}
	return nil
}

// Now returns the time on the clock of the events.
func Now() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		panic(err) // every kernel has this clock
	}
	return time.Duration(ts.Nano())
}

const (
	drainEvery = 50 * time.Millisecond
	// settle is how old events are when they are passed on. Those that are not collected per CPU have
	// arrived by then, too.
	settle = 2 * time.Millisecond
)

// Run passes events to handle, in the order of their times, until ctx ends. It returns the time up
// to which all events were passed on. If tracing costs more than it may, the error is a CostError.
func (t *Tracer) Run(ctx context.Context, handle func(blame.Event)) (until time.Duration, err error) {
	runtime.LockOSThread() // whose CPU time is measured
	defer runtime.UnlockOSThread()
	before := threadTime() - t.handled
	for wait := drainEvery; ; {
		last := false
		select {
		case <-ctx.Done():
			last, wait = true, 0
		default:
		}
		until = Now()
		if err := t.drain(wait); err != nil {
			return until, err
		}
		if t.lossSince() {
			t.read = t.read[:0]
			handle(blame.Event{Kind: blame.Loss, Time: t.passed})
			if err := t.Snapshot(); err != nil {
				return until, err
			}
		}
		if last {
			t.pass(until, handle)
			return until, t.between(until)
		}
		until -= settle
		t.pass(until, handle)
		t.handled = threadTime() - before
		if err := errors.Join(t.between(until), t.check()); err != nil {
			return until, err
		}
	}
}

// drain reads events for a time, longer while there are more. It gets all that happened before.
func (t *Tracer) drain(wait time.Duration) error {
	counters, err := t.counters()
	if err != nil {
		return err
	}
	for cpu := range t.cpus {
		if counters[cpu].Pending == 0 {
			continue // not to disturb it
		}
		arguments := []uint64{uint64(cpu)}
		_, err := t.kernel.Flush.Run(&ebpf.RunOptions{Context: arguments, Flags: unix.BPF_F_TEST_RUN_ON_CPU, CPU: uint32(cpu)})
		if errors.Is(err, unix.ENXIO) { // it is offline
			_, err = t.kernel.Flush.Run(&ebpf.RunOptions{Context: arguments})
		}
		if err != nil {
			return fmt.Errorf("collect the events of CPU %d: %w", cpu, err)
		}
	}
	var record ringbuf.Record
	t.ring.SetDeadline(time.Now().Add(wait))
	for bytes := 0; bytes < 4*t.options.Ring; bytes += len(record.RawSample) { // not for ever
		err := t.ring.ReadInto(&record)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the ring buffer: %w", err)
		}
		for rest := record.RawSample; len(rest) > 0; {
			e, size, err := decode(rest)
			if err != nil {
				return err
			}
			t.read, rest = append(t.read, e), rest[size:]
		}
	}
	return nil
}

// pass passes on the events before a time.
func (t *Tracer) pass(until time.Duration, handle func(blame.Event)) {
	slices.SortStableFunc(t.read, func(a, b blame.Event) int { return int(a.Time - b.Time) })
	n := 0
	for ; n < len(t.read) && t.read[n].Time < until; n++ {
		handle(t.read[n])
		t.passed = t.read[n].Time
	}
	t.read = t.read[:copy(t.read, t.read[n:])]
}

// lossSince reports whether the kernel has dropped events since the last call.
func (t *Tracer) lossSince() bool {
	before := t.lost
	if err := t.kernel.Lost.Get(&t.lost); err != nil {
		return true
	}
	return t.lost != before
}

// Close detaches the programs and removes them from the kernel.
func (t *Tracer) Close() error {
	var errs []error
	for _, l := range t.links {
		errs = append(errs, l.Close())
	}
	errs = append(errs, t.kernel.Watched.Close(), t.kernel.Events.Close())
	if t.threads != nil {
		errs = append(errs, t.threads.Close())
	}
	if t.ring != nil {
		errs = append(errs, t.ring.Close())
	}
	for _, p := range append(t.kernel.traced(), t.kernel.Snapshot, t.kernel.Flush) {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
