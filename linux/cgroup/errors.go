package cgroup

import (
	"errors"
	"fmt"

	"pinfold.dev/pinfold/core/cpuset"
)

// What callers branch on, with errors.Is.
var (
	// ErrGone says that the group does not exist (any more).
	ErrGone = errors.New("control group does not exist")
	// ErrNoHierarchy says that no mounted hierarchy has the controller.
	ErrNoHierarchy = errors.New("controller is in no mounted hierarchy")
	// ErrReadOnly says that the hierarchy is mounted read-only.
	ErrReadOnly = errors.New("hierarchy is mounted read-only")
	// ErrBothVersions says that version 1 and 2 both claim the controller.
	ErrBothVersions = errors.New("controller is in a version 1 and a version 2 hierarchy")
	// ErrNotEnabled says that the group's parent does not pass the controller on
	// (version 2, cgroup.subtree_control).
	ErrNotEnabled = errors.New("controller is not enabled for the control group")
	// ErrInvalid says that wanted settings can be valid on no kernel, or contradict
	// those of a group above.
	ErrInvalid = errors.New("settings are not valid")
)

// HierarchyError says what is wrong with the hierarchy of a controller. It wraps
// ErrNoHierarchy, ErrReadOnly or ErrBothVersions.
type HierarchyError struct {
	Controller Controller
	Where      string // mount point, or where mounts were looked for
	Problem    error
	Do         string // what to do
}

func (e *HierarchyError) Error() string {
	return fmt.Sprintf("cgroup controller %s (%s): %v: %s", e.Controller, e.Where, e.Problem, e.Do)
}

func (e *HierarchyError) Unwrap() error { return e.Problem }

// UnsupportedError says that the kernel does not have a file. It wraps
// errors.ErrUnsupported.
type UnsupportedError struct {
	File  string // or what is missing in it
	Since string // first kernel that has it; "" when that says nothing
}

func (e *UnsupportedError) Error() string {
	if e.Since == "" {
		return fmt.Sprintf("the kernel has no %s: it was built without it, or the root group has none", e.File)
	}
	return fmt.Sprintf("the kernel has no %s: Linux has it since %s; use that or a newer one", e.File, e.Since)
}

func (e *UnsupportedError) Unwrap() error { return errors.ErrUnsupported }

// WriteError is a write that the kernel refused. It wraps the errno.
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

// MismatchError is a write that the kernel accepted and that reads back otherwise.
type MismatchError struct {
	Write
	Found string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s of %s reads %q after %q was written: somebody else writes it, too", e.File, e.Path, e.Found, e.Value)
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

// invalid is a wanted setting that can be valid on no kernel.
func invalid(path, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", path, ErrInvalid, fmt.Sprintf(format, args...))
}

// invalidAs is invalid with a typed reason.
func invalidAs(path string, reason error) error {
	return fmt.Errorf("%s: %w: %w", path, ErrInvalid, reason)
}
