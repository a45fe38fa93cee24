// Package cgrouptest opens the control groups of this machine for tests, and makes groups and
// processes in them.
package cgrouptest

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/test/must"
)

// OpenHost returns the control groups of this machine. It skips the test unless it runs as root and
// may make groups.
func OpenHost(t testing.TB) *cgroup.FS {
	t.Helper()
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
