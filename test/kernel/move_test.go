package kernel

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/must"
)

// BenchmarkMove measures how long a busy thread stands still when its cgroup gets another CPU, as
// the agent writes it: -benchtime 1000x. The thread reads the clock and its CPU all the time. The
// figures are the gap between two readings in which the CPU changes, and for comparison the longest
// gap in 10 ms without a move.
//
// In the end a moved thread is alone on its CPU. Here other programs run there, so one half of the
// runs has real-time priority, which makes these wait.
func BenchmarkMove(b *testing.B) {
	for _, kind := range []struct {
		name     string
		priority uint32
	}{{"alone", 1}, {"beside=others", 0}} {
		b.Run(kind.name, func(b *testing.B) {
			c := newReader(b, kind.priority)
			var moved, still []time.Duration
			for b.Loop() {
				longest, _ := c.gaps(func() {})
				_, move := c.gaps(c.move)
				if still = append(still, longest); move > 0 {
					moved = append(moved, move)
				}
			}
			b.ReportMetric(float64(len(moved)), "moves")
			for name, gaps := range map[string][]time.Duration{"move": moved, "without": still} {
				slices.Sort(gaps)
				for _, percent := range []int{50, 99, 100} {
					b.ReportMetric(float64(gaps[(len(gaps)-1)*percent/100].Microseconds()), fmt.Sprintf("%s-p%d-us", name, percent))
				}
			}
		})
	}
}

// reader is a thread that reads the clock, in a cgroup with one CPU.
type reader struct {
	b      *testing.B
	fs     *cgroup.FS
	group  string
	cpus   [2]cpuset.Set
	begin  chan bool
	stop   atomic.Bool
	report chan []gap
}

// gap is a time between two readings.
type gap struct {
	start time.Time
	time.Duration
	moved bool // to another CPU
}

func newReader(b *testing.B, priority uint32) *reader {
	c := &reader{b: b, fs: cgrouptest.OpenHost(b), group: fmt.Sprintf("/pinfold-kernel-move-%d", os.Getpid()), begin: make(chan bool), report: make(chan []gap)}
	online := must.Get(c.fs.Effective("/"))(b)
	if c.fs.Layout().CPUSet != cgroup.V1 || online.Len() < 2 {
		b.Skip("this moves a thread between two CPUs with control groups of version 1")
	}
	for i := range c.cpus {
		c.cpus[i] = cpuset.Of(online.First())
		online = online.Difference(c.cpus[i])
	}
	cgrouptest.Make(b, c.fs, c.group, cgroup.CPUSet)
	c.move()
	percent := debug.SetGCPercent(-1) // collections stop threads
	b.Cleanup(func() { debug.SetGCPercent(percent) })
	ended := make(chan error)
	go c.read(priority, ended)
	b.Cleanup(func() {
		close(c.begin)
		must.Do(b, <-ended)
	})
	return c
}

// move gives the cgroup the other CPU.
func (c *reader) move() {
	c.cpus[0], c.cpus[1] = c.cpus[1], c.cpus[0]
	must.Do(c.b, c.fs.Apply(map[string]cgroup.Wanted{c.group: {CPUs: &c.cpus[0]}}).Err())
}

// gaps returns the longest gap while f runs and in the 10 ms after it, and the one with a move.
func (c *reader) gaps(f func()) (longest, move time.Duration) {
	const before, after, pause = 5 * time.Millisecond, 10 * time.Millisecond, 50 * time.Millisecond
	c.stop.Store(false)
	c.begin <- true
	time.Sleep(before)
	start := time.Now()
	f()
	time.Sleep(after)
	c.stop.Store(true)
	for _, g := range <-c.report {
		if g.start.Add(g.Duration).Before(start) {
			continue
		}
		if longest = max(longest, g.Duration); g.moved {
			move = g.Duration
		}
	}
	time.Sleep(pause) // the kernel bounds the CPU time of threads with priority
	return longest, move
}

// read reads the clock between begin and stop, and reports the gaps. Its thread ends with it.
func (c *reader) read(priority uint32, ended chan<- error) {
	runtime.LockOSThread()
	enter := func(group string) error {
		return os.WriteFile(filepath.Join(c.fs.Dir(cgroup.CPUSet, group), "tasks"), []byte(strconv.Itoa(unix.Gettid())), 0)
	}
	err := enter(c.group)
	if err == nil && priority > 0 {
		err = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: priority}, 0)
	}
	gaps := make([]gap, 0, 1<<16)
	for range c.begin {
		gaps = gaps[:0]
		last, lastCPU := time.Now(), currentCPU()
		for !c.stop.Load() {
			now, cpu := time.Now(), currentCPU()
			if g := (gap{last, now.Sub(last), cpu != lastCPU}); (g.moved || g.Duration > 2*time.Microsecond) && len(gaps) < cap(gaps) {
				gaps = append(gaps, g)
			}
			last, lastCPU = now, cpu
		}
		c.report <- gaps
	}
	ended <- errors.Join(err, enter("/")) // the group is removed with everything in it
}

func currentCPU() (cpu uint32) {
	_, _, _ = unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0)
	return cpu
}
