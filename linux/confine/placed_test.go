package confine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/sysfs"
	"pinfold.dev/pinfold/test/wait"
)

// family is a process and its child in a group of their own. If the machine has several
// CPUs, both have an affinity to the last one.
type family struct {
	fs            *cgroup.FS // within the group
	machine       *cgroup.FS
	parent, child int
}

// newFamily starts a family that does something: spin or sleep.
func newFamily(t *testing.T, machine *cgroup.FS, group, what string) *family {
	t.Helper()
	procs := ownGroup(t, machine, group, 0)
	cpus := slices.Collect(usable(t).All())
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, doWord, "family", what)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	tell, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	narrowly(t, cpuset.Of(cpus[len(cpus)-1]), func() { err = cmd.Start() })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for _, name := range procs {
		if err := os.WriteFile(name, []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	tell.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	f := &family{machine: machine, parent: cmd.Process.Pid}
	groups, err := cgrouptree.GroupsOf(machine, f.parent)
	if err != nil {
		t.Fatal(err)
	}
	f.fs = machine.Within(groups)
	wait.True(t, "it has a child", func() bool {
		for _, pid := range withDescendants([]int{f.parent}) {
			if line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); strings.Contains(string(line), "\x00"+doWord+"\x00"+what+"\x00") {
				f.child = pid
			}
		}
		return f.child != 0
	})
	return f
}

// state returns groups and affinities of the family's processes, and what is in their group.
func (f *family) state() string {
	var b strings.Builder
	for _, pid := range []int{f.parent, f.child} {
		groups, err := cgrouptree.GroupsOf(f.machine, pid)
		each, err2 := sysfs.AffinityOfThreads(pid)
		slices.SortFunc(each, func(a, b cpuset.Set) int { return strings.Compare(a.String(), b.String()) })
		fmt.Fprintln(&b, pid, groups, err, slices.Compact(each), err2)
	}
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUSet, cgroup.CPUAcct} {
		if f.fs.Hierarchy(c).Mount == "" {
			continue
		}
		below, err := f.fs.Children(c, "/")
		kind, _ := os.ReadFile(f.fs.Dir(c, "/") + "/" + cgroup.TypeFile) // version 2 only
		delegated, _ := os.ReadFile(f.fs.Dir(c, "/") + "/" + cgroup.SubtreeControl)
		fmt.Fprintf(&b, "%s %v %v %q %q\n", c, below, err, kind, delegated)
	}
	return b.String()
}

func (f *family) order() order {
	return order{PIDs: []int{f.parent}, Quota: 5 * time.Millisecond, Period: 100 * time.Millisecond, CPUs: "0"}
}

// testPlaced checks that a process and those below it get CPUs and a limit, and are back in their
// group with their affinity at the end, while they start others.
func testPlaced(t *testing.T, fs *cgroup.FS) {
	f := newFamily(t, fs, "/pinfold-test-placed", "spin")
	before := f.state()
	o := f.order()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := o.spec()
	looked := make(chan struct{})
	s.Notify = func(message string) {
		if !strings.HasPrefix(message, "processes placed in ") {
			t.Error(message)
			return
		}
		go func() {
			defer close(looked)
			defer cancel()
			for _, pid := range []int{f.parent, f.child} {
				wait.Until(t, "the process is placed", func() error {
					groups, err := cgrouptree.GroupsOf(fs, pid)
					cpus, err2 := sysfs.AffinityOf(pid)
					if err != nil || err2 != nil || cpus.String() != o.CPUs || !isPlaced(groups[cgroup.CPU]) || !isPlaced(groups[cgroup.CPUSet]) {
						return fmt.Errorf("process %d is in %v on CPUs %s: %w", pid, groups, cpus, errors.Join(err, err2))
					}
					return nil
				})
			}
			wait.True(t, "the busy processes are throttled", func() bool {
				groups, err := cgrouptree.GroupsOf(fs, f.parent)
				stat, err2 := cgroupstat.Read(fs, groups[cgroup.CPU])
				return err == nil && err2 == nil && stat.Throttled > 0
			})
			second := f.order()
			second.PIDs = []int{f.child}
			if said := inGroup(t, nil, 0, second); !strings.Contains(said, "another 'pinfold run --pid' has placed process") {
				t.Errorf("a second run of the same process: %s", said)
			}
		}()
	}
	r, err := Run(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	<-looked
	checkLimited(t, r, o)
	if !r.Terminated || r.LeftBehind < 2 || r.Uncounted || r.Settings.Effective.String() != o.CPUs {
		t.Errorf("%+v", r)
	}
	if after := f.state(); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

// testPlacedEnded checks that a run ends when the process does, and by signals, and puts the others
// back. Two runs are in the same group at the same time.
func testPlacedEnded(t *testing.T, fs *cgroup.FS) {
	f := newFamily(t, fs, "/pinfold-test-ended", "spin")
	before := f.state()
	for _, sig := range []syscall.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if signal.Ignored(sig) { // nohup: runs ignore it, too
			continue
		}
		child := f.order()
		child.PIDs = []int{f.child}
		var cmds []*exec.Cmd
		for _, o := range []order{child, f.order()} {
			cmd := starting(t, o)
			begin(t, cmd)
			cmds = append(cmds, cmd)
			wait.True(t, "it is placed", func() bool {
				groups, err := cgrouptree.GroupsOf(fs, o.PIDs[0])
				return err == nil && isPlaced(groups[cgroup.CPU]) && isPlaced(groups[cgroup.CPUSet])
			})
			time.Sleep(100 * time.Millisecond) // until those below it are
		}
		for _, cmd := range cmds {
			if err := cmd.Process.Signal(sig); err != nil {
				t.Error(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("after %v: %v", sig, err)
			}
		}
		if after := f.state(); after != before {
			t.Fatalf("after %v, before\n%safter\n%s", sig, before, after)
		}
	}
	s := f.order().spec()
	s.Notify = func(string) { _ = unix.Kill(f.parent, unix.SIGKILL) }
	if r, err := Run(t.Context(), s); err != nil || r.Terminated || r.LeftBehind == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if groups, err := cgrouptree.GroupsOf(fs, f.child); err != nil || isPlaced(groups[cgroup.CPU]) || isPlaced(groups[cgroup.CPUSet]) {
		t.Errorf("the child is in %v, %v", groups, err)
	}
	_ = unix.Kill(f.child, unix.SIGKILL)
}

// testPlacedRefused checks that processes that must not be placed are not, with a message.
func testPlacedRefused(t *testing.T, fs *cgroup.FS) {
	f := newFamily(t, fs, "/pinfold-test-refused", "sleep")
	pod := newFamily(t, fs, "/pinfold-test-pods/kubepods/x", "sleep")
	before := f.state() + pod.state()
	zombie := exec.Command("/proc/self/exe", doWord, "exit", "0")
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = zombie.Wait() }()
	wait.True(t, "it is a zombie", func() bool { s, err := readStat(zombie.Process.Pid); return err == nil && s.State == "Z" })
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", f.parent))
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	thread, _ := strconv.Atoi(threads[0].Name())
	if thread == f.parent { // they are in the order of their digits
		thread, _ = strconv.Atoi(threads[1].Name())
	}
	for want, pids := range map[string][]int{
		"there is no process 4194304":                              {4194304},
		"process 1 starts and ends all others":                     {1},
		"is pinfold, or has started it":                            {os.Getpid()},
		"has ended, and its parent has not waited for it (zombie)": {zombie.Process.Pid},
		"is a thread: give its process":                            {thread},
		"is a thread of the kernel":                                {2},
		"annotations such as cpuset-scheduler":                     {pod.child},
		"are in different control groups":                          {f.parent, testSibling(t, fs)},
	} {
		if s, err := readStat(2); want == "is a thread of the kernel" && (err != nil || !isKernel(s)) {
			t.Logf("process 2 is not kthreadd here: a PID namespace hides the kernel's threads")
			continue
		}
		o := f.order()
		o.PIDs = pids
		s := o.spec()
		ctx, cancel := context.WithCancel(t.Context())
		s.Notify = func(message string) { t.Error(message); cancel() }
		if _, err := Run(ctx, s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("processes %d: %v, want %s", pids, err, want)
		}
		cancel()
	}
	o := f.order()
	o.Burst = 2 * o.Quota // the kernel refuses that, after the group was created
	if _, err := Run(t.Context(), o.spec()); err == nil {
		t.Error("a burst above the quota is accepted")
	}
	if out := inGroup(t, nil, nobody, f.order()); !strings.Contains(out, cgrouptree.ErrNoParent.Error()) || !strings.Contains(out, "run as root") {
		t.Errorf("as another user: %s", out)
	}
	if after := f.state() + pod.state(); after != before {
		t.Errorf("before\n%safter\n%s", before, after)
	}
}

// testSibling starts a process in another group.
func testSibling(t *testing.T, fs *cgroup.FS) int {
	t.Helper()
	return newFamily(t, fs, "/pinfold-test-sibling", "sleep").parent
}

// testPlacedKilled kills the run before its odd changes of control groups, or the run and its watcher
// together before the even ones, or first the run and then the watcher before each of its own. The
// next run, if not the watcher, must put all back. Slow machines (emulators) leave changes out.
func testPlacedKilled(t *testing.T, fs *cgroup.FS) {
	const patience = 4 * time.Second
	f := newFamily(t, fs, "/pinfold-test-killed", "sleep")
	before := f.state()
	o := f.order()
	for _, test := range []struct {
		victims      string
		step, stride int
		hold         time.Duration
	}{{"run", 1, 2, 20 * time.Millisecond}, {"both", 2, 2, 20 * time.Millisecond}, {"watcher", 1, 1, 0}} {
		victims, step, stride, kills := test.victims, test.step, test.stride, 0
		o.Hold = test.hold
		for began := time.Now(); interrupted(t, step, victims, o); kills++ {
			if f.state() != before {
				run(t, order{Do: []string{"exit", "0"}})
			}
			wait.True(t, fmt.Sprintf("%s killed before change %d: after the next run, all is\n%s", victims, step, before),
				func() bool { return f.state() == before }) // runs of other tests may be at it
			step += stride + int(time.Since(began)/patience)
		}
		t.Logf("%s: killed before %d changes, the last before number %d", victims, kills, step-stride)
		if kills < 2 {
			t.Errorf("%s: killed only %d times", victims, kills)
		}
	}
}

// interrupted runs an order and kills it before its nth change. It reports whether there were as
// many.
func interrupted(t *testing.T, n int, victims string, o order) bool {
	t.Helper()
	cmd := starting(t, o)
	cmd.Args = append(cmd.Args[:2], "interrupt", strconv.Itoa(n), victims, cmd.Args[3])
	begin(t, cmd)
	_ = cmd.Wait()
	switch status := cmd.ProcessState.ExitCode(); status {
	case 0:
		return true
	case noSuchStep:
		return false
	default:
		t.Fatalf("change %d of %s: status %d", n, victims, status)
		return false
	}
}
