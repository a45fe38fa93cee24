package scx

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/priority"
)

//go:embed scx.o
var object []byte

// Version identifies the programs. It is part of the name by which the kernel shows the scheduler.
func Version() string { return fmt.Sprintf("%x", sha256.Sum256(object))[:8] }

// objects are the programs, maps and variables of the object file.
type objects struct {
	OnSwitch    *ebpf.Program  `ebpf:"on_switch"`
	OnWakeup    *ebpf.Program  `ebpf:"on_wakeup"`
	OnWakeupNew *ebpf.Program  `ebpf:"on_wakeup_new"`
	Batch       *ebpf.Map      `ebpf:"batch"`
	PodOf       *ebpf.Map      `ebpf:"pod_of"`
	Clock       *ebpf.Map      `ebpf:"clock"`
	Budget      *ebpf.Variable `ebpf:"budget"`
	NrPods      *ebpf.Variable `ebpf:"nr_pods"`
	Generation  *ebpf.Variable `ebpf:"generation"`
	NrWaiting   *ebpf.Variable `ebpf:"nr_waiting"`
	Weights     *ebpf.Variable `ebpf:"weights"`
	Siblings    *ebpf.Variable `ebpf:"siblings"`
	Pods        *ebpf.Variable `ebpf:"pods"`
	Counters    *ebpf.Variable `ebpf:"counters"`
	Worst       *ebpf.Variable `ebpf:"worst"` // for tests
	Ended       *ebpf.Variable `ebpf:"ended"`
}

// traced returns the programs that are attached to tracepoints.
func (o *objects) traced() []*ebpf.Program {
	return []*ebpf.Program{o.OnSwitch, o.OnWakeup, o.OnWakeupNew}
}

// Options configure a scheduler. The zero value of each field stands for its default.
type Options struct {
	// MaxWait is the waiting time after which a thread is overdue. An overdue thread gets the next CPU
	// that other work leaves idle, in spite of the budget. The default is 2 s.
	MaxWait time.Duration
	// Watchdog is the waiting time after which the kernel ends the scheduler. The default is the
	// kernel's maximum, 30 s.
	Watchdog time.Duration
	// Name is what the kernel shows. The default is "pinfold_" and the version.
	Name string
}

// DefaultMaxWait is the default of [Options].MaxWait.
const DefaultMaxWait = 2 * time.Second

// Name is the beginning of the names of all schedulers of this package.
const Name = "pinfold"

// Scheduler is a scheduler in the kernel. Its methods must not be called concurrently, except
// SetBudget.
type Scheduler struct {
	name    string
	kernel  objects
	links   []link.Link
	numbers map[uint64]uint32 // of pods, by their groups
	weights [maxPods]uint32
	pods    [maxPods]pod // as last read
	before  [maxPods]pod // what earlier pods with the same numbers had used
}

// Load loads a scheduler into the kernel, which verifies it. It schedules nothing before
// [Scheduler.Attach].
func Load(o Options) (*Scheduler, error) {
	s := &Scheduler{name: cmp.Or(o.Name, Name+"_"+Version()), numbers: map[uint64]uint32{}}
	spec, err := configure(s.name, o)
	if err != nil {
		return nil, fmt.Errorf("set up the BPF programs: %w", err)
	}
	return s, s.load(spec)
}

func (s *Scheduler) load(spec *ebpf.CollectionSpec) error {
	if err := adapt(spec); err != nil {
		return explain(err)
	}
	all, err := ebpf.NewCollection(spec)
	if err != nil {
		return explain(err)
	}
	defer all.Close() // closes what s does not keep; the kernel keeps the programs of the map batch
	if err := all.Assign(&s.kernel); err != nil {
		return fmt.Errorf("load the scheduler for batch work: %w", err)
	}
	return s.SetMachine(&topology.Machine{})
}

func configure(name string, o Options) (*ebpf.CollectionSpec, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, fmt.Errorf("count CPUs: %w", err)
	}
	if err := errors.Join(
		spec.Variables["nr_cpus"].Set(uint32(cpus)),
		spec.Variables["max_wait"].Set(uint64(cmp.Or(o.MaxWait, DefaultMaxWait))),
	); err != nil {
		return nil, err
	}
	shown, err := member(spec.Maps["batch"], "name")
	if err != nil {
		return nil, err
	}
	if len(name) >= len(shown) {
		return nil, fmt.Errorf("the name %s is too long: %d bytes fit", name, len(shown)-1)
	}
	clear(shown)
	copy(shown, name)
	timeout, err := member(spec.Maps["batch"], "timeout_ms")
	if err != nil {
		return nil, err
	}
	watchdog := cmp.Or(o.Watchdog, 30*time.Second)
	binary.NativeEndian.PutUint32(timeout, uint32(watchdog.Milliseconds()))
	return spec, nil
}

// adapt removes the programs and flags that the running kernel does not know or need.
func adapt(spec *ebpf.CollectionSpec) error {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return err
	}
	hasFunction := func(function string) bool {
		var found *btf.Func
		return kernel.TypeByName(function, &found) == nil
	}
	if hasFunction("scx_bpf_dsq_reenq") {
		delete(spec.Programs, "cpu_release")
	}
	if hasFunction("scx_bpf_dsq_move_to_local___v2") {
		delete(spec.Programs, "dispatch_before")
	} else {
		spec.Programs["dispatch_before"].AttachTo = spec.Programs["dispatch"].AttachTo
		delete(spec.Programs, "dispatch")
	}
	var flags *btf.Enum
	if err := kernel.TypeByName("scx_ops_flags", &flags); err != nil {
		return err
	}
	known := uint64(0)
	for _, flag := range flags.Values {
		known |= flag.Value
	}
	wanted, err := member(spec.Maps["batch"], "flags")
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(wanted, binary.NativeEndian.Uint64(wanted)&known)
	return nil
}

// Attach makes the scheduler run the threads whose policy is SCHED_EXT. The error wraps ErrBusy if
// the kernel runs another one.
func (s *Scheduler) Attach() error {
	for _, p := range s.kernel.traced() {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return errors.Join(explain(err), s.Detach())
		}
		s.links = append(s.links, l)
	}
	l, err := link.AttachStructOps(link.StructOpsOptions{Map: s.kernel.Batch})
	if err != nil {
		_ = s.Detach()
		if errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("%w: %s", ErrBusy, Running())
		}
		return explain(err)
	}
	s.links = append(s.links, l)
	if why, ok := s.Ended(); ok { // the kernel reports success if the programs have failed to start
		return errors.Join(fmt.Errorf("start the scheduler for batch work: %s", why), s.Detach())
	}
	return visitCPUs()
}

// visitCPUs runs a thread on each CPU once. The scheduler learns what a CPU runs when it switches
// threads.
func visitCPUs() error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		done <- priority.VisitCPUs()
	}()
	return <-done
}

// Detach ends the scheduler. Its threads run in the fair class from then on.
func (s *Scheduler) Detach() error {
	var errs []error
	for i := len(s.links) - 1; i >= 0; i-- {
		errs = append(errs, s.links[i].Close())
	}
	s.links = nil
	return errors.Join(errs...)
}

// Close ends the scheduler, and removes it from the kernel.
func (s *Scheduler) Close() error {
	k := s.kernel
	return errors.Join(s.Detach(), k.OnSwitch.Close(), k.OnWakeup.Close(), k.OnWakeupNew.Close(), k.Batch.Close(), k.PodOf.Close(), k.Clock.Close())
}

// Name returns the name by which the kernel shows the scheduler.
func (s *Scheduler) Name() string { return s.name }

// Pod is a pod whose threads the scheduler runs.
type Pod struct {
	Group  uint64 // number of its control group (inode) in the hierarchy of the controller cpu
	Weight int    // 1 to 10,000: its share when CPUs are scarce
}

// SetPods replaces the pods. The threads of all other pods share one queue, with weight 1. The
// scheduler has queues for 255 pods; pods beyond that share the same queue.
func (s *Scheduler) SetPods(pods []Pod) error {
	var errs []error
	wanted := map[uint64]bool{}
	for _, p := range pods {
		wanted[p.Group] = true
	}
	taken := [maxPods]bool{0: true}
	changed := false
	for group, number := range s.numbers {
		if wanted[group] {
			taken[number] = true
			continue
		}
		if err := s.kernel.PodOf.Delete(group); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, err)
		}
		delete(s.numbers, group)
		changed = true
	}
	highest := uint32(0)
	for _, p := range pods {
		number, known := s.numbers[p.Group]
		if !known {
			if number = free(&taken); number == 0 {
				continue
			}
			taken[number], changed = true, true
			errs = append(errs, s.read(), s.kernel.PodOf.Put(p.Group, number))
			s.before[number] = s.pods[number]
			s.numbers[p.Group] = number
		}
		highest = max(highest, number)
		s.weights[number] = uint32(min(max(1, p.Weight), 10_000))
	}
	errs = append(errs, s.kernel.Weights.Set(&s.weights), s.kernel.NrPods.Set(highest+1))
	if changed {
		var generation uint32
		errs = append(errs, s.kernel.Generation.Get(&generation), s.kernel.Generation.Set(generation+1))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("tell the scheduler about batch pods: %w", err)
	}
	return nil
}

// free returns the least number that is not taken, 0 if all are.
func free(taken *[maxPods]bool) uint32 {
	for number, is := range taken {
		if !is {
			return uint32(number)
		}
	}
	return 0
}

// SetMachine tells the scheduler which CPUs share a core. Without it, each CPU is a core of its
// own.
func (s *Scheduler) SetMachine(m *topology.Machine) error {
	var all [maxCPUs][maxSiblings + 1]int32
	for i := range all {
		all[i] = [maxSiblings + 1]int32{0: -1}
	}
	for _, core := range m.Cores() {
		for cpu := range core.CPUs.All() {
			others := core.CPUs.Difference(cpuset.Of(cpu))
			n := 0
			for other := range others.All() {
				if n < maxSiblings {
					all[cpu][n], all[cpu][n+1] = int32(other), -1
					n++
				}
			}
		}
	}
	if err := s.kernel.Siblings.Set(&all); err != nil {
		return fmt.Errorf("tell the scheduler about the cores: %w", err)
	}
	return nil
}

// SetBudget sets how much CPU time batch work may use in the long run. An infinite budget is no
// bound.
func (s *Scheduler) SetBudget(budget quantity.CPUs) error {
	thousandths := uint32(math.MaxUint32)
	if !math.IsInf(float64(budget), 1) {
		thousandths = uint32(math.Round(min(max(0, float64(budget)), maxCPUs) * 1000))
	}
	if err := s.kernel.Budget.Set(thousandths); err != nil {
		return fmt.Errorf("set the budget of batch work: %w", err)
	}
	return nil
}

// read reads the statistics of the pods.
func (s *Scheduler) read() error {
	if err := s.kernel.Pods.Get(&s.pods); err != nil {
		return fmt.Errorf("read the statistics of batch pods: %w", err)
	}
	return nil
}

// Stats are statistics of all threads since the scheduler was loaded.
type Stats struct {
	// Pods has those of each pod, by its group, and of all other threads, by 0.
	Pods map[uint64]Stat
	// Queued is the number of threads that wait, counted every 10 ms.
	Queued int
	// Expelled is how often batch work was interrupted because other work began to run on its core.
	Expelled uint64
	// Yielded is how often batch work gave up a CPU because other work waited behind other work.
	Yielded uint64
	// Overdrawn is the CPU time of overdue threads, which the budget does not stop.
	Overdrawn time.Duration
}

// Stats reads the statistics.
func (s *Scheduler) Stats() (Stats, error) {
	var c counters
	var queued uint64
	if err := errors.Join(s.read(), s.kernel.Counters.Get(&c), s.kernel.NrWaiting.Get(&queued)); err != nil {
		return Stats{}, fmt.Errorf("read the statistics of batch work: %w", err)
	}
	stats := Stats{Pods: map[uint64]Stat{0: s.pods[0].since(pod{})}, Queued: int(queued), Expelled: c.Expelled, Yielded: c.Yielded,
		Overdrawn: time.Duration(c.Overdrawn)}
	for group, number := range s.numbers {
		stats.Pods[group] = s.pods[number].since(s.before[number])
	}
	return stats, nil
}

// Ended returns why the kernel has ended the scheduler, and whether it has.
func (s *Scheduler) Ended() (why string, ok bool) {
	var e ended
	if err := s.kernel.Ended.Get(&e); err != nil || e.Kind == 0 {
		return "", false
	}
	why = unix.ByteSliceToString(e.Reason[:])
	if message := unix.ByteSliceToString(e.Message[:]); message != "" {
		why += ": " + message
	}
	return why, true
}
