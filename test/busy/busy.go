// Package busy supports tests that must hold on a busy machine. Such a test measures whether it was
// disturbed by other load, and [Repeat] repeats it if it was. Its assertions are as strict as
// without load.
package busy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Repeat tries until a try was not disturbed, at most so many times. A try returns how it was
// disturbed, "" when it was not; what it asserts it asserts only then. When all tries were
// disturbed the test is skipped.
func Repeat(t testing.TB, most int, try func() (disturbed string)) {
	t.Helper()
	disturbed := ""
	for n := range most {
		if disturbed = try(); disturbed == "" {
			return
		}
		t.Logf("disturbed, try %d of %d: %s", n+1, most, disturbed)
	}
	t.Skipf("this machine is too busy: all %d tries were disturbed, the last one because %s; run this test while less else runs", most, disturbed)
}

// Waited returns for how long the threads of a process that there are now have been ready to run
// and did not, because others ran or because they were throttled (the second number of
// /proc/PID/task/TID/schedstat, Documentation/scheduler/sched-stats.rst).
func Waited(pid int) (time.Duration, error) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("process %d has no threads whose waiting is counted: it has ended, or the kernel is without CONFIG_SCHED_INFO", pid)
	}
	if err != nil {
		return 0, err
	}
	var sum time.Duration
	for _, file := range files {
		text, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the thread has ended
		}
		var ran, waited time.Duration
		if err == nil {
			_, err = fmt.Sscan(string(text), &ran, &waited)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		sum += waited
	}
	return sum, nil
}
