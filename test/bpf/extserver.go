package bpf

import (
	"os"
	"path/filepath"
	"testing"
)

// NoExtServer makes the kernel keep no CPU time for SCHED_EXT until the test ends. Linux keeps 5%
// since 7.0 unless told otherwise. The test is skipped if debugfs, where the kernel is told, is not
// mounted.
func NoExtServer(t *testing.T) {
	t.Helper()
	const scheduler = "/sys/kernel/debug/sched"
	if _, err := os.Stat(scheduler); err != nil {
		t.Skipf("%v: mount debugfs to run this test", err)
	}
	files, _ := filepath.Glob(scheduler + "/ext_server/cpu*/runtime") // the pattern is valid
	for _, file := range files {
		before, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, []byte("0"), 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.WriteFile(file, before, 0) })
	}
}
