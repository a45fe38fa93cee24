package runqueue

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/linux/schedtrace"
)

//go:embed runqueue.o
var object []byte

// Period is the time between two samples of a CPU.
const Period = 9_973 * time.Microsecond

// Behind is what the threads of a group wait behind.
type Behind uint32

// The numbers are those of the BPF program.
const (
	Group   Behind = 1 + iota // threads of a group
	Root                      // a thread of the root group, such as one of the kernel
	Nothing                   // the CPU is idle, such as one whose core another group has for itself
	Machine                   // interrupts, or the hypervisor
)

// Wait is for how long threads of a group have waited behind something, since that was last read.
type Wait struct {
	Group  blame.Group
	Behind Behind
	Other  blame.Group   // if Behind is Group; may be Group itself
	Name   string        // of the thread, if Behind is Root
	Time   time.Duration // CPU time
}

// Cost is what sampling has cost and missed so far.
type Cost struct {
	Samples uint64        // of all CPUs
	Late    uint64        // samples that were due while the machine had taken the CPU
	Cut     uint64        // samples in which some threads were not looked at, because more than 200 waited
	Lost    uint64        // waits that were not counted, because there were too many pairs on one CPU
	Time    time.Duration // CPU time in the kernel
}

// Plus returns the sum of two costs.
func (c Cost) Plus(o Cost) Cost {
	return Cost{c.Samples + o.Samples, c.Late + o.Late, c.Cut + o.Cut, c.Lost + o.Lost, c.Time + o.Time}
}

// objects are the program and the variables of the object file.
type objects struct {
	Sample *ebpf.Program  `ebpf:"sample"`
	Waits  *ebpf.Map      `ebpf:"waits"`
	CPUs   *ebpf.Variable `ebpf:"cpus"`
}

// These are the types of the BPF program.
type (
	waitKey struct {
		Group, Other uint64
		Behind, CPU  uint32
		Name         [16]byte
	}
	seen       struct{ Samples, Last uint64 }
	cpuCounter struct {
		Due, Samples, Late, Cut, Lost, Time uint64
		_                                   [2]uint64 // least, looked and idle
	}
)

// maxCPUs is MAX_CPUS of the BPF program.
const maxCPUs = 1024

// Sampler samples all CPUs. Its methods must not be called concurrently.
type Sampler struct {
	kernel objects
	timers map[cpuset.CPU]int // file descriptors
	online func() ([]byte, error)
	all    [maxCPUs]cpuCounter
	keys   []waitKey
	values []seen
}

// Open begins to sample.
func Open() (*Sampler, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("read the BPF program: %w", err)
	}
	if err := spec.Variables["period"].Set(uint64(Period)); err != nil {
		return nil, fmt.Errorf("set up the BPF program: %w", err)
	}
	s := &Sampler{timers: map[cpuset.CPU]int{}, keys: make([]waitKey, 512), values: make([]seen, 512),
		online: func() ([]byte, error) { return os.ReadFile("/sys/devices/system/cpu/online") }}
	if err := spec.LoadAndAssign(&s.kernel, nil); err != nil {
		return nil, explain(err)
	}
	if err := s.follow(); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func explain(err error) error {
	return schedtrace.Explain(err, feature.Tracing, "sample the queues of CPUs", "CAP_BPF and CAP_PERFMON")
}

// follow samples the CPUs that are online now.
func (s *Sampler) follow() error {
	text, err := s.online()
	if err != nil {
		return fmt.Errorf("which CPUs are online: %w", err)
	}
	online, err := cpuset.Parse(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("which CPUs are online: %w", err)
	}
	for cpu, fd := range s.timers {
		if !online.Contains(cpu) {
			_ = unix.Close(fd)
			delete(s.timers, cpu)
		}
	}
	for cpu := range online.All() {
		if _, sampled := s.timers[cpu]; sampled || cpu >= maxCPUs {
			continue
		}
		fd, err := s.attach(cpu)
		if errors.Is(err, unix.ENODEV) {
			continue // it is offline again
		}
		if err != nil {
			return explain(fmt.Errorf("CPU %d: %w", cpu, err))
		}
		s.timers[cpu] = fd
	}
	return nil
}

// attach makes the program run on a CPU once in each period.
func (s *Sampler) attach(cpu cpuset.CPU) (fd int, err error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_CPU_CLOCK, Sample: uint64(Period), Bits: unix.PerfBitDisabled}
	attr.Size = uint32(unsafe.Sizeof(attr))
	fd, err = unix.PerfEventOpen(&attr, -1, int(cpu), -1, unix.PERF_FLAG_FD_CLOEXEC)
	if err != nil {
		return -1, err
	}
	err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, s.kernel.Sample.FD())
	if err == nil {
		err = unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_ENABLE, 0)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return fd, err
}

// Read returns what the samples since the last call have shown, in no order and with one Wait for
// each pair and CPU. CPUs that came online meanwhile are sampled from now on.
func (s *Sampler) Read() ([]Wait, error) {
	if err := s.follow(); err != nil {
		return nil, err
	}
	var waits []Wait
	var cursor ebpf.MapBatchCursor
	for {
		n, err := s.kernel.Waits.BatchLookupAndDelete(&cursor, s.keys, s.values, nil)
		for i := range n {
			k := &s.keys[i]
			name, _, _ := bytes.Cut(k.Name[:], []byte{0})
			waits = append(waits, Wait{Group: blame.Group(k.Group), Behind: Behind(k.Behind), Other: blame.Group(k.Other),
				Name: string(name), Time: time.Duration(s.values[i].Samples) * Period})
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist):
			return waits, nil
		case errors.Is(err, unix.ENOSPC) && len(s.keys) < 1<<16: // a bucket of the table has more entries than that
			s.keys, s.values = make([]waitKey, 2*len(s.keys)), make([]seen, 2*len(s.keys))
		case err != nil:
			return nil, fmt.Errorf("read the samples: %w", err)
		}
	}
}

// Cost returns what sampling has cost so far.
func (s *Sampler) Cost() (c Cost, err error) {
	if err := s.kernel.CPUs.Get(&s.all); err != nil {
		return c, fmt.Errorf("read the counters of the program: %w", err)
	}
	for i := range s.all {
		one := &s.all[i]
		c = c.Plus(Cost{one.Samples, one.Late, one.Cut, one.Lost, time.Duration(one.Time)})
	}
	return c, nil
}

// Close ends sampling.
func (s *Sampler) Close() error {
	for _, fd := range s.timers {
		_ = unix.Close(fd)
	}
	return errors.Join(s.kernel.Sample.Close(), s.kernel.Waits.Close())
}
