package schedtrace

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// UnsupportedError reports that this kernel, or this process, cannot trace the scheduler. It wraps
// errors.ErrUnsupported.
type UnsupportedError struct {
	Reason string // and what to do
	Err    error
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("cannot trace the scheduler: %s (%v)", e.Reason, KernelError(e.Err))
}

func (e *UnsupportedError) Unwrap() []error { return []error{errors.ErrUnsupported, e.Err} }

// explain returns err with its likely cause.
func explain(err error) error {
	var verifier *ebpf.VerifierError
	switch {
	case errors.As(err, &verifier) && len(verifier.Log) > 0, errors.Is(err, ebpf.ErrNotSupported):
		return &UnsupportedError{"the kernel rejects the programs: use Linux 5.14 or newer", err}
	case errors.Is(err, os.ErrPermission):
		return &UnsupportedError{"run as root, or with CAP_BPF and CAP_PERFMON", err}
	case errors.Is(err, btf.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return &UnsupportedError{"the kernel has no type information (CONFIG_DEBUG_INFO_BTF) or lacks a tracepoint: use Linux 5.14 or newer", err}
	}
	return fmt.Errorf("trace the scheduler: %w", KernelError(err))
}

// KernelError returns the kernel's error without what the library adds for programmers, such as the
// names of programs. Of a rejected program, it is what the kernel says of the rejection.
func KernelError(err error) error {
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
