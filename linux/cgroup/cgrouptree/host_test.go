package cgrouptree_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
)

func TestMain(m *testing.M) { cgrouptest.Main(m) }

// TestHost lists and ends a process of several threads in a group of this machine.
func TestHost(t *testing.T) {
	fs, group := cgrouptest.OpenHost(t), fmt.Sprintf("/pinfold-test-tree-%d", os.Getpid())
	controllers := []cgroup.Controller{cgroup.CPU, cgroup.CPUSet}
	cgrouptest.Make(t, fs, group, controllers...)
	pid := cgrouptest.Start(t, fs, group, "asleep", controllers...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	threads, err := cgrouptree.Threads(fs, group)
	for err == nil && len(threads) < 2 && ctx.Err() == nil {
		time.Sleep(time.Millisecond) // the process has just started
		threads, err = cgrouptree.Threads(fs, group)
	}
	if err != nil || !slices.Contains(threads, pid) || len(threads) < 2 {
		t.Errorf("threads %v, %v; want %d and the others of its process", threads, err, pid)
	}
	processes, err := cgrouptree.ProcessesIn(fs.Dir(cgroup.CPUSet, group))
	if diff := cmp.Diff([]int{pid}, processes); err != nil || diff != "" {
		t.Errorf("processes: %v\n%s", err, diff)
	}
	if err := cgrouptree.Kill(ctx, fs, group, controllers...); err != nil {
		t.Error(err)
	}
	if left, err := cgrouptree.ProcessesBelow(fs, group, controllers...); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
