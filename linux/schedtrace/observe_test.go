package schedtrace

import (
	"errors"
	"os"
	"slices"
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
