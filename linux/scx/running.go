package scx

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"pinfold.dev/pinfold/linux/schedtrace"
)

// ErrBusy reports that the kernel runs another scheduler. It runs one at a time.
var ErrBusy = errors.New("the kernel runs another scheduler already")

// UnsupportedError reports that this kernel, or this process, cannot load the scheduler. It wraps
// errors.ErrUnsupported.
type UnsupportedError struct {
	Reason string // and what to do
	Err    error
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("cannot load the scheduler for batch work: %s (%v)", e.Reason, schedtrace.KernelError(e.Err))
}

func (e *UnsupportedError) Unwrap() []error { return []error{errors.ErrUnsupported, e.Err} }

// explain returns err with its likely cause.
func explain(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier) && len(verifier.Log) > 0:
		return &UnsupportedError{"the kernel rejects the programs", err}
	case errors.Is(err, os.ErrPermission):
		return &UnsupportedError{"run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_NICE", err}
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, btf.ErrNotFound), errors.Is(err, os.ErrNotExist),
		strings.Contains(err.Error(), "kfunc"): // that error has no type: a function of the kernel has other parameters
		return &UnsupportedError{needs, err}
	}
	return fmt.Errorf("load the scheduler for batch work: %w", schedtrace.KernelError(err))
}

const needs = "use Linux 6.12 or newer, except 7.1, built with CONFIG_SCHED_CLASS_EXT and CONFIG_DEBUG_INFO_BTF"

const directory = "/sys/kernel/sched_ext"

// Lacking returns what keeps this kernel from running the scheduler, in words for users, or "".
func Lacking() string {
	if _, err := os.Stat(directory + "/state"); err != nil {
		return "the kernel has no sched_ext: " + needs
	}
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return "the kernel has no type information: " + needs
	}
	if name := Running(); name != "" && !strings.HasPrefix(name, Name+"_") {
		return "the kernel runs the scheduler " + name + " of another program, and can run only one: end that program"
	}
	return ""
}

// Check is [Lacking], and loads the programs for a moment to see whether the kernel accepts them.
func Check() string {
	if why := Lacking(); why != "" {
		return why
	}
	s, err := Load(Options{})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		return err.Error()
	}
	return ""
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
