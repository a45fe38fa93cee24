package schedtrace

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
)

// TestIdleThreads traces the root group, which has the idle threads of all CPUs: they are not among
// its threads.
func TestIdleThreads(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	o, err := Observe(t.Context(), fs, Request{Groups: []string{"/"}, Duration: 500 * time.Millisecond, Longest: 1000}, Options{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	sum := o.sum("/")
	if slices.ContainsFunc(sum.Threads, func(t blame.ThreadSum) bool { return t.ID == 0 }) {
		t.Errorf("an idle thread is one of %d threads", len(sum.Threads))
	}
	if slices.ContainsFunc(sum.Longest, func(d blame.Delay) bool { return d.Thread.ID == 0 }) {
		t.Error("an idle thread was delayed")
	}
	if len(sum.Threads) < 2 || sum.Running == 0 {
		t.Errorf("%d threads ran %v", len(sum.Threads), sum.Running)
	}
}

// TestSessions traces the root group, which has the threads of all sessions, also where the scheduler
// has automatic groups for these.
func TestSessions(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	busy := exec.Command("sh", "-c", "while :; do :; done")
	busy.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	must(0, busy.Start())(t)
	t.Cleanup(func() {
		_ = busy.Process.Kill()
		_ = busy.Wait()
	})
	o, err := Observe(t.Context(), fs, Request{Groups: []string{"/"}, Duration: 500 * time.Millisecond}, Options{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(o.sum("/").Threads, func(t blame.ThreadSum) bool { return t.ID == busy.Process.Pid })
	if i < 0 || o.sum("/").Threads[i].Running == 0 {
		t.Errorf("process %d is not among the %d threads of the root group that ran", busy.Process.Pid, len(o.sum("/").Threads))
	}
}

// TestNamespace: the numbers of processes are those of the initial PID namespace, whose /proc has
// their names.
func TestNamespace(t *testing.T) {
	pids, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		t.Fatal(err)
	}
	want := map[bool]string{true: "/proc"}[pids == initialPIDs]
	if got := machineProc("/"); got != want {
		t.Errorf("in %s: %q, want %q", pids, got, want)
	}
	if got := machineProc("/host"); got != "/host/proc" {
		t.Errorf("the machine's root: %q", got)
	}
}

// TestNames: names of processes that a report does not need are forgotten, and those of containers
// that are not observed are not read.
func TestNames(t *testing.T) {
	const watched, root, other blame.Group = 1, 2, 3
	o := &Observation{processes: map[int]string{}, most: maxNames, proc: "/proc", groups: map[blame.Group]string{watched: "/a", root: "/", other: "/b"}}
	p := plan{watched: map[blame.Group]blame.Group{watched: watched}}
	for _, group := range []blame.Group{other, watched, root} {
		o.meet(blame.Thread{ID: os.Getpid(), Process: os.Getpid(), Group: group}, p)
		if read := o.Process(os.Getpid()) != ""; read != (group != other) {
			t.Errorf("group %d: read %v", group, read)
		}
		clear(o.processes)
	}
	needed := map[int]bool{}
	for id := 1; id <= 10*maxNames; id++ {
		o.meet(blame.Thread{ID: 1 << 30, Process: 1<<30 + id, Group: root}, p) // there are none of these numbers
		if id%1000 == 0 {
			needed[1<<30+id] = true
		}
		if len(o.processes) > o.most {
			o.keep(needed)
		}
		if len(o.processes) > 2*maxNames {
			t.Fatalf("%d names", len(o.processes))
		}
	}
	if _, known := o.processes[1<<30+1000]; !known {
		t.Error("a name that is needed was forgotten")
	}
}
