// Package wait waits in tests for what other goroutines, processes and servers bring about. It has
// no deadline in seconds, because a busy machine has none:
//
//	wait.Until(t, "the pod has a node", func() error { ... })
//	wait.Until(t, "the API server is ready", ready, wait.CPUTime(server.Pid))
//
// A wait goes on while there is progress: the error of the look changes, or the CPU time of the
// process that should bring the event about grows. It ends the test after a number of looks without
// progress. A machine that stands still makes no looks, so it uses up no patience.
package wait

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/procfs"

	"pinfold.dev/pinfold/test/busy"
)

// Pauses and numbers of looks. A minute without progress, as asked for, is much longer than any
// single step takes on an idle machine.
const (
	pause    = 25 * time.Millisecond
	patience = 2400      // looks without progress
	most     = 10 * 2400 // looks in all: an idle process uses a little CPU time, too
	margin   = 20 * time.Second
)

// TB is a [testing.TB] or a test of another package.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Progress returns a value that changes while what the test waits for is being brought about.
type Progress func() string

// CPUTime returns the progress of a process: its CPU time, in steps of 0.1 s.
func CPUTime(pid int) Progress {
	return func() string {
		process, err := procfs.NewProc(pid)
		if err != nil {
			return ""
		}
		stat, err := process.Stat()
		if err != nil {
			return "" // it has ended, which is no progress
		}
		return fmt.Sprintf("%.1f", stat.CPUTime())
	}
}

// Until looks until there is no error. Without progress it ends the test with the last error.
func Until(t TB, what string, look func() error, progress ...Progress) {
	t.Helper()
	if err := until(t, look, progress); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// True is [Until] for a condition without an explanation.
func True(t TB, what string, holds func() bool, progress ...Progress) {
	t.Helper()
	Until(t, what, func() error {
		if holds() {
			return nil
		}
		return errors.New("not yet")
	}, progress...)
}

func until(t TB, look func() error, progress []Progress) error {
	meter := busy.Start()
	last := ""
	for looks, since := 1, 0; ; looks++ {
		err := look()
		if err == nil {
			return nil
		}
		state := err.Error()
		for _, p := range progress {
			state += "\n" + p()
		}
		if since++; state != last {
			last, since = state, 0
		}
		if since >= patience || looks >= most || ends(t) {
			return fmt.Errorf("no progress in %d of %d looks (%v): %w", since, looks, meter.Read(), err)
		}
		time.Sleep(pause)
	}
}

// ends reports whether the test program is about to be ended by its -timeout, which would lose the
// results of its other tests.
func ends(t TB) bool {
	limited, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok {
		return false
	}
	deadline, ok := limited.Deadline()
	return ok && time.Until(deadline) < margin
}
