package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
)

// Errors for errors.Is.
var (
	// ErrGone reports that the group does not exist, or no longer exists.
	ErrGone = errors.New("control group does not exist")
	// ErrNoHierarchy reports that no mounted hierarchy has the controller.
	ErrNoHierarchy = errors.New("controller is in no mounted hierarchy")
	// ErrReadOnly reports that the hierarchy is mounted read-only.
	ErrReadOnly = errors.New("hierarchy is mounted read-only")
	// ErrBothVersions reports that a version 1 and a version 2 hierarchy claim the controller.
	ErrBothVersions = errors.New("controller is in a version 1 and a version 2 hierarchy")
	// ErrNotEnabled reports that the group's parent does not delegate the controller (version 2,
	// cgroup.subtree_control).
	ErrNotEnabled = errors.New("the control group does not have the controller")
	// ErrInvalid reports wanted settings that no kernel accepts, or that contradict those of a
	// group above.
	ErrInvalid = errors.New("settings are not valid")
)

// IsGone reports whether an error means that a group, process or thread has ended. The files of a
// group that ends between open and read return ENODEV, those of a process ESRCH.
func IsGone(err error) bool {
	return errors.Is(err, ErrGone) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ESRCH)
}

// HierarchyError is a problem with the hierarchy of a controller. It wraps ErrNoHierarchy,
// ErrReadOnly or ErrBothVersions.
type HierarchyError struct {
	Controller Controller
	Where      string // mount point, or the file that lists mounts
	Problem    error
	Do         string // how to fix it
}

func (e *HierarchyError) Error() string {
	return fmt.Sprintf("cgroup controller %s (%s): %v: %s", e.Controller, e.Where, e.Problem, e.Do)
}

func (e *HierarchyError) Unwrap() error { return e.Problem }

// WriteError is a write that the kernel rejected. It wraps the errno.
type WriteError struct {
	Write
	Err   error
	Cause string // the likely cause, in words; may be ""
}

func (e *WriteError) Error() string {
	text := fmt.Sprintf("write %q to %s of %s: %v", e.Value, e.File, e.Path, e.Err)
	if e.Cause != "" {
		text += ": " + e.Cause
	}
	return text
}

func (e *WriteError) Unwrap() error { return e.Err }

// MismatchError reports that the kernel accepted a write, but the file then had another value.
type MismatchError struct {
	Write
	Found string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s of %s reads %q after %q was written: another process writes it, too", e.File, e.Path, e.Found, e.Value)
}

// EffectiveError reports that a group has the wanted CPUs but cannot use all of them.
type EffectiveError struct {
	Path              string
	Wanted, Effective cpuset.Set
}

func (e *EffectiveError) Error() string {
	return fmt.Sprintf("%s has CPUs %s but runs on %s: the others are offline, outside of its parent's or in a partition of others",
		e.Path, e.Wanted, e.Effective)
}

// invalid returns an error that wraps ErrInvalid.
func invalid(path, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %w", path, ErrInvalid, fmt.Errorf(format, args...))
}

// likelyCause explains why the kernel probably rejected a write, or returns "" if the errno says it
// all. Source: kernel/cgroup/cpuset.c, cpuset-v1.c and kernel/sched/core.c of Linux 6.18.
func likelyCause(f File, errno syscall.Errno) string {
	switch {
	case errno == syscall.EROFS:
		return "the hierarchy is mounted read-only: mount it read-write for this process"
	case errno == syscall.EPERM, errno == syscall.EACCES && f != CPUSetCPUs:
		return "run as root, in the host's user namespace"
	case f == CPUSetCPUs:
		return map[syscall.Errno]string{
			syscall.EACCES: "a CPU is not in the parent's cpuset (widen the parent first), or this process is not root",
			syscall.EBUSY:  "a child group still has a CPU that is not in the list: narrow the children first",
			syscall.ENOSPC: "the group has tasks, and would have no CPU, or has no memory node",
			syscall.ERANGE: "the machine does not have that many CPUs",
			syscall.EINVAL: "a CPU is offline, or exclusive to a sibling group",
		}[errno]
	case f == CPUSetExclusive && errno == syscall.EINVAL:
		return "a sibling group has such a CPU exclusively, or has no other CPUs"
	case errno != syscall.EINVAL:
		return ""
	}
	switch f {
	case CPUCFSQuota, CPUCFSPeriod:
		return "quota/period is above the parent's or below a child's, the quota is below the burst or 1 ms, or the period is not within 1 ms to 1 s"
	case CPUMax:
		return "the quota is below the burst or 1 ms, or the period is not within 1 ms to 1 s"
	case CPUCFSBurst, CPUMaxBurst:
		return "the burst is above the quota"
	case CPUShares, CPUWeight:
		return "the group is idle, and idle groups have no weight"
	}
	return ""
}
