package cgrouptree_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

func TestMain(m *testing.M) { cgrouptest.Main(m) }

// TestUnlisted: another user's group, which this one may not list, hides the groups below it and
// nothing else.
func TestUnlisted(t *testing.T) {
	top := t.TempDir()
	for _, group := range []string{"a/b", "closed/c", "open/d"} {
		must.Do(t, os.MkdirAll(filepath.Join(top, group), 0o755))
	}
	closed := filepath.Join(top, "closed")
	must.Do(t, os.Chmod(closed, 0o311))
	t.Cleanup(func() { _ = os.Chmod(closed, 0o755) })
	cgrouptest.DropOverride(t)
	var all []string
	dirs, err := cgrouptree.DirsBelow(top)
	for _, dir := range dirs {
		all = append(all, strings.TrimPrefix(dir, top))
	}
	if diff := cmp.Diff([]string{"", "/a", "/a/b", "/closed", "/open", "/open/d"}, all); diff != "" {
		t.Error(diff)
	}
	if want := "the groups below " + closed + " cannot be listed"; !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	if dirs, err := cgrouptree.DirsBelow(filepath.Join(top, "none")); len(dirs) > 0 || err != nil {
		t.Errorf("a group that does not exist: %v, %v", dirs, err)
	}
	must.Do(t, os.Remove(filepath.Join(closed, "c")))
	once, cancel := context.WithCancel(t.Context())
	cancel()
	if err := cgrouptree.RemoveDir(once, closed); err != nil {
		t.Errorf("an empty group: %v", err)
	}
}

// TestHost lists and ends a process of several threads in a group of this machine.
func TestHost(t *testing.T) {
	fs, group := cgrouptest.OpenHost(t), fmt.Sprintf("/pinfold-test-tree-%d", os.Getpid())
	controllers := []cgroup.Controller{cgroup.CPU, cgroup.CPUSet}
	cgrouptest.Make(t, fs, group, controllers...)
	pid := cgrouptest.Start(t, fs, group, "asleep", controllers...)
	wait.Until(t, "the process and its threads are listed", func() error {
		threads, err := cgrouptree.Threads(fs, group)
		if err == nil && (!slices.Contains(threads, pid) || len(threads) < 2) {
			return fmt.Errorf("threads %v, want %d and the others of its process", threads, pid)
		}
		return err
	})
	processes, err := cgrouptree.ProcessesIn(fs.Dir(cgroup.CPUSet, group))
	if diff := cmp.Diff([]int{pid}, processes); err != nil || diff != "" {
		t.Errorf("processes: %v\n%s", err, diff)
	}
	if err := cgrouptree.Kill(t.Context(), fs, group, controllers...); err != nil {
		t.Error(err)
	}
	if left, err := cgrouptree.ProcessesBelow(fs, group, controllers...); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
