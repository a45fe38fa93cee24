// Package cgrouptest opens the control groups of this machine for tests, and makes groups and
// processes in them.
package cgrouptest

import (
	"context"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// OpenHost returns the control groups of this machine. It skips the test under -short, or unless it
// runs as root and may make groups.
func OpenHost(t testing.TB) *cgroup.FS {
	t.Helper()
	need.This(t, "this machine's control groups")
	if os.Geteuid() != 0 {
		t.Skip("not root: run as root to test on this machine's control groups")
	}
	fs, err := cgroup.Open("/")
	if err == nil {
		err = fs.CheckWritable()
	}
	if err != nil {
		t.Skipf("this machine's control groups cannot be used: %v", err)
	}
	return fs
}

// Make makes a group. At the end of the test, it ends the processes in it and removes it.
func Make(t testing.TB, fs *cgroup.FS, group string, controllers ...cgroup.Controller) {
	t.Helper()
	must.Do(t, cgrouptree.Make(fs, group, controllers...))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := errors.Join(cgrouptree.Kill(ctx, fs, group, controllers...), cgrouptree.Remove(ctx, fs, group, controllers...)); err != nil {
			t.Error(err)
		}
	})
}

// DropOverride takes from the test's thread what lets root read all directories.
func DropOverride(t testing.TB) {
	t.Helper()
	runtime.LockOSThread() // which ends with the test
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	must.Do(t, unix.Capget(&header, &sets[0]))
	sets[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
	must.Do(t, unix.Capset(&header, &sets[0]))
}
