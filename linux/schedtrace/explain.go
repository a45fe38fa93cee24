package schedtrace

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"pinfold.dev/pinfold/linux/feature"
)

// Explain returns an error of loading BPF programs with its likely cause. If the kernel lacks the
// feature, or this process the capabilities, it is a [feature.UnsupportedError]. Doing is what the
// programs are for, such as "trace the scheduler".
func Explain(err error, f *feature.Feature, doing, capabilities string) error {
	unsupported := &feature.UnsupportedError{Feature: f, What: "cannot " + doing, Err: kernelError(err)}
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier) && len(verifier.Log) > 0:
		unsupported.Do = "the kernel rejects the programs: " + f.Needs()
	case errors.Is(err, os.ErrPermission):
		unsupported.Do = "run as root, or with " + capabilities
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, btf.ErrNotFound), errors.Is(err, os.ErrNotExist),
		strings.Contains(err.Error(), "kfunc"): // that error has no type: a function of the kernel has other parameters
	default:
		return fmt.Errorf("%s: %w", doing, kernelError(err))
	}
	return unsupported
}

func explain(err error) error {
	return Explain(err, feature.Tracing, "trace the scheduler", "CAP_BPF and CAP_PERFMON")
}

// kernelError returns the kernel's error without what the library adds for programmers, such as the
// names of programs. Of a rejected program, it is what the kernel says of the rejection.
func kernelError(err error) error {
	var verifier *ebpf.VerifierError
	var errno syscall.Errno
	switch {
	case errors.As(err, &verifier) && len(verifier.Log) > 0:
		return verifier
	case errors.As(err, &errno):
		return errno
	}
	return err
}
