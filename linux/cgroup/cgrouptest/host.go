// Package cgrouptest opens the control groups of this machine for tests.
package cgrouptest

import (
	"os"
	"testing"

	"pinfold.dev/pinfold/linux/cgroup"
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
