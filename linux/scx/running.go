package scx

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/linux/schedtrace"
)

// ErrBusy is returned if the kernel runs a scheduler already; it runs one at a time.
var ErrBusy = errors.New("the kernel runs another scheduler already")

// explain returns err with its likely cause.
func explain(err error) error {
	return schedtrace.Explain(err, feature.SchedExt, "load the scheduler for batch work", "CAP_BPF, CAP_PERFMON and CAP_SYS_NICE")
}

const directory = "/sys/kernel/sched_ext"

// Test returns why no scheduler can be attached to the kernel that this process runs on, and nil if
// nothing is known to be missing. The error is a [feature.UnsupportedError] or wraps [ErrBusy].
func Test() error {
	if err := feature.SchedExt.Test(); err != nil {
		return err
	}
	if name := Running(); name != "" && !strings.HasPrefix(name, Name+"_") {
		return fmt.Errorf("%w, %s: end that", ErrBusy, name)
	}
	return nil
}

// Check returns what [Test] does, or why the kernel does not accept the programs, which it loads
// for a moment.
func Check() error {
	if err := Test(); err != nil {
		return err
	}
	s, err := Load(Options{})
	if err != nil {
		return err
	}
	return s.Close()
}

// Running returns the name of the scheduler that the kernel runs, "" if it runs none.
func Running() string {
	state, err := os.ReadFile(directory + "/state")
	if err != nil || strings.TrimSpace(string(state)) == "disabled" {
		return ""
	}
	name, err := os.ReadFile(directory + "/root/ops")
	if err != nil {
		return strings.TrimSpace(string(state))
	}
	return strings.TrimSpace(string(name))
}
