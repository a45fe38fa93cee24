package scx

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/schedtrace"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/test/must"
)

// taskVariable makes the test binary a load: "busy N CPUS", N threads that always want to run on
// these CPUs, or "wake N CPUS", N threads that compute for a moment every 4 N ms, in turns. It
// begins after a line on standard input, and ends with it.
const taskVariable = "PINFOLD_TEST_TASK"

func TestMain(m *testing.M) {
	switch what := strings.Fields(os.Getenv(taskVariable)); {
	case len(what) == 0:
		renice(-20) // a test decides when a load begins and ends
		os.Exit(m.Run())
	case what[0] == "hold":
		thread, _ := strconv.Atoi(what[1])
		hold(thread)
	default:
		beLoad(what)
	}
}

// renice sets the nice value of all threads of this process.
func renice(nice int) {
	tasks, _ := os.ReadDir("/proc/self/task")
	for _, task := range tasks {
		if id, err := strconv.Atoi(task.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, nice)
		}
	}
}

func beLoad(what []string) {
	renice(0)
	n, _ := strconv.Atoi(what[1])
	var mask unix.CPUSet
	for cpu := range cpuset.MustParse(what[2]).All() {
		mask.Set(int(cpu))
	}
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n')
	runtime.GOMAXPROCS(n + 2)
	started, begin := make(chan bool), make(chan bool)
	period := time.Duration(n) * 4 * time.Millisecond
	for i := range n {
		go func() {
			runtime.LockOSThread()
			_ = unix.SchedSetaffinity(0, &mask)
			started <- true
			<-begin
			if what[0] == "busy" {
				spin(math.MaxInt)
			}
			for next := schedtrace.Now() + time.Duration(i)*4*time.Millisecond; ; next += period {
				until := unix.NsecToTimespec(int64(next))
				_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil)
				spin(10_000)
			}
		}()
	}
	for range n {
		<-started
	}
	close(begin)
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, in)
	os.Exit(0)
}

var spun int

// spin computes without calling anything, so that the runtime of Go does not interrupt it.
func spin(n int) {
	for range n {
		spun++
	}
}

// bench is a machine on which batch work has a scheduler.
type bench struct {
	*testing.T
	fs      *cgroup.FS
	machine *topology.Machine
}

// newBench skips the test on machines that have no sched_ext, or run a scheduler already.
func newBench(t *testing.T) bench {
	t.Helper()
	fs := cgrouptest.OpenHost(t)
	if why := Test(); why != nil {
		t.Skip(why)
	}
	return bench{t, fs, must.Get(sysfs.Read(os.DirFS("/sys")))(t)}
}

// load loads a scheduler, and ends it with the test.
func (b bench) load(o Options) *Scheduler {
	b.Helper()
	return b.loadWith(o, nil)
}

// loadWith is load with other values of some constants of the programs.
func (b bench) loadWith(o Options, constants map[string]uint32) *Scheduler {
	b.Helper()
	s := &Scheduler{name: cmp.Or(o.Name, Name), numbers: map[uint64]uint32{}}
	spec := must.Get(configure(s.name, o))(b)
	for name, value := range constants {
		must.Do(b, spec.Variables[name].Set(value))
	}
	if err := s.load(spec); err != nil {
		var verifier *ebpf.VerifierError
		if errors.As(err, &verifier) {
			b.Log(strings.Join(verifier.Log[max(0, len(verifier.Log)-60):], "\n"))
		}
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	must.Do(b, s.SetMachine(b.machine))
	return s
}

func (b bench) attached(o Options) *Scheduler {
	b.Helper()
	s := b.load(o)
	b.attach(s)
	return s
}

// attach attaches a scheduler, and checks at the end of the test that it still runs.
func (b bench) attach(s *Scheduler) {
	b.Helper()
	must.Do(b, s.Attach())
	b.Cleanup(func() {
		for Running() != s.Name() {
			if why, ok := s.Ended(); ok {
				b.Errorf("the kernel has ended the scheduler: %s; %+v", why, must.Get(s.Stats())(b))
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// group makes a control group.
func (b bench) group(name string) string {
	b.Helper()
	group := fmt.Sprintf("/pinfold-scx-%d-%s", os.Getpid(), name)
	cgrouptest.Make(b, b.fs, group, cgroup.CPU)
	return group
}

// task is a load in a group.
type task struct {
	b   bench
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a load in a group. Its threads have begun when start returns.
func (b bench) start(group, kind string, n int, cpus cpuset.Set) *task {
	b.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %d %s", taskVariable, kind, n, cpus), "GOGC=off", "GODEBUG=asyncpreemptoff=1")
	x := &task{b, cmd, must.Get(cmd.StdinPipe())(b), bufio.NewReader(must.Get(cmd.StdoutPipe())(b))}
	cmd.Stderr = os.Stderr
	must.Do(b, cmd.Start())
	b.Cleanup(x.end)
	must.Do(b, os.WriteFile(b.fs.Dir(cgroup.CPU, group)+"/cgroup.procs", fmt.Append(nil, cmd.Process.Pid), 0))
	must.Get(io.WriteString(x.in, "\n"))(b)
	if line, err := x.out.ReadString('\n'); line != "ready\n" {
		b.Fatalf("the load printed %q (%v)", line, err)
	}
	return x
}

// end ends a load.
func (x *task) end() {
	_ = x.cmd.Process.Kill()
	_ = x.cmd.Wait()
}

// batch starts threads of batch work in a new group.
func (b bench) batch(name string, n int, cpus cpuset.Set) string {
	b.Helper()
	group := b.group(name)
	b.start(group, "busy", n, cpus)
	if turned := must.Get(TurnOver(b.fs, []string{group}))(b); turned < n {
		b.Fatalf("%d threads were turned over, want %d and more", turned, n)
	}
	return group
}

func (b bench) pod(group string, weight int) Pod {
	return Pod{Group: must.Get(b.fs.Inode(cgroup.CPU, group))(b), Weight: weight}
}

func (b bench) setPods(s *Scheduler, pods ...Pod) {
	b.Helper()
	must.Do(b, s.SetPods(pods))
}

// settles waits until the CPU time that groups use from now on, in CPUs, is right: for d, or some
// more times d. While its host is busy, a CPU of a virtual machine may stand still for seconds,
// and the thread on it seems to use them. The scheduler makes up for that when it sees it, so the
// error gets smaller with time.
func (b bench) settles(d time.Duration, check func(used []float64) error, groups ...string) {
	b.Helper()
	read := func() (all []float64) {
		for _, g := range groups {
			all = append(all, must.Get(cgroupstat.Read(b.fs, g))(b).Usage.Seconds())
		}
		return all
	}
	before, began := read(), schedtrace.Now()
	for try := 1; ; try++ {
		time.Sleep(d)
		used, took := read(), (schedtrace.Now() - began).Seconds()
		for i := range used {
			used[i] = (used[i] - before[i]) / took
		}
		err := check(used)
		b.Logf("used %.3f CPUs, %v", used, err)
		if err == nil {
			return
		}
		if try == 8 {
			b.Error(err)
			return
		}
	}
}
