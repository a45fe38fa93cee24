package cgrouptree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
)

// sleepEnv makes TestSleep the process that is put into a group.
const sleepEnv = "PINFOLD_TEST_SLEEP"

// TestSleep is the process that TestHost starts. It ends when its standard input ends.
func TestSleep(t *testing.T) {
	if os.Getenv(sleepEnv) == "" {
		t.Skip("another test runs this one in a process of its own")
	}
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// TestHost lists and ends a process of several threads in a group of this machine.
func TestHost(t *testing.T) {
	fs := cgrouptest.OpenHost(t)
	controllers := []cgroup.Controller{cgroup.CPU, cgroup.CPUSet}
	group := fmt.Sprintf("/pinfold-test-tree-%d", os.Getpid())
	if err := Make(fs, group, controllers...); err != nil {
		t.Skipf("make a group in the root, as root of the machine: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	defer func() {
		if err := errors.Join(Kill(ctx, fs, group, controllers...), Remove(ctx, fs, group, controllers...)); err != nil {
			t.Error(err)
		}
	}()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestSleep$")
	cmd.Env = append(os.Environ(), sleepEnv+"=1")
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	for _, c := range controllers {
		if err := os.WriteFile(fs.Dir(c, group)+"/"+string(cgroup.Procs), fmt.Append(nil, pid), 0o644); err != nil {
			t.Fatalf("move a process to a group of %s: %v", c, err)
		}
	}
	threads, err := Threads(fs, group)
	for err == nil && len(threads) < 2 && ctx.Err() == nil {
		time.Sleep(time.Millisecond) // the process has just started
		threads, err = Threads(fs, group)
	}
	if err != nil || !slices.Contains(threads, pid) || len(threads) < 2 {
		t.Errorf("threads %v, %v; want %d and the others of its process", threads, err, pid)
	}
	processes, err := ProcessesIn(fs.Dir(cgroup.CPUSet, group))
	if diff := cmp.Diff([]int{pid}, processes); err != nil || diff != "" {
		t.Errorf("processes: %v\n%s", err, diff)
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	if err := Kill(ctx, fs, group, controllers...); err != nil {
		t.Error(err)
	}
	if err := <-ended; err == nil {
		t.Error("the process has ended by itself")
	}
	if left, err := ProcessesBelow(fs, group, controllers...); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
