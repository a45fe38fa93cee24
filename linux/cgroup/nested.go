package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"syscall"

	"pinfold.dev/pinfold/core/cpuset"
)

// nestedTries bounds how often a group is tried again that was given a new child between
// the look at its children and the write.
const nestedTries = 4

// withNested adds to changes those of the groups below the ones that take them along. It is
// for version 1, which refuses to take CPUs from a group while one below it has them; on
// version 2 the groups below follow by themselves.
func (fs *FS) withNested(changes []Change) []Change {
	if fs.layout.CPUSet != V1 {
		return changes
	}
	for _, c := range changes {
		if c.Wanted.Nested && c.Wanted.CPUs != nil && *c.Wanted.CPUs != c.Present.CPUs {
			changes = append(changes, fs.nestedChanges(c)...)
		}
	}
	return changes
}

// nestedChanges returns what becomes of the groups below one whose CPUs change: who had the same
// goes with it, who had fewer keeps what is left of them, or gets all when nothing is.
func (fs *FS) nestedChanges(parent Change) (all []Change) {
	children, err := fs.Children(CPUSet, parent.Path)
	if err != nil {
		return nil // the kernel's refusal says what it is about
	}
	for _, child := range children {
		present, err := fs.ReadParts(child, Parts{CPUs: true})
		if err != nil || present.CPUs.IsEmpty() {
			continue
		}
		target := parent.Target().CPUs
		if kept := present.CPUs.Intersection(target); present.CPUs != parent.Present.CPUs && !kept.IsEmpty() {
			target = kept
		}
		change := Change{Path: child, Present: present, Wanted: Wanted{CPUs: &target}}
		all = append(append(all, change), fs.nestedChanges(change)...)
	}
	return all
}

// blocked are the groups that could not be given their CPUs because of groups below them that
// they take along.
func blocked(wanted map[string]Wanted, o Outcome) map[string]Wanted {
	again := map[string]Wanted{}
	for group, w := range wanted {
		if w.Nested && errors.Is(o.Failed[group], syscall.EBUSY) {
			again[group] = w
		}
	}
	return again
}

// retake takes in what became of groups, and those below them, that were tried again.
func (o *Outcome) retake(again map[string]Wanted, next Outcome) {
	o.Written = append(o.Written, next.Written...)
	for tried := range again {
		maps.DeleteFunc(o.Failed, func(group string, _ error) bool { return isBelow(group, tried) })
	}
	maps.Copy(o.Failed, next.Failed)
}

// nameBlocker says which group below one stands in the way of a write to its cpuset.
func (fs *FS) nameBlocker(w Write, err error) error {
	var refused *WriteError
	wanted, errParse := cpuset.Parse(w.Value)
	if w.File != CPUSetCPUs || !errors.As(err, &refused) || !errors.Is(err, syscall.EBUSY) || errParse != nil {
		return err
	}
	children, errList := fs.Children(CPUSet, w.Path)
	if errList != nil {
		return err
	}
	for _, child := range children {
		if s, errRead := fs.ReadParts(child, Parts{CPUs: true}); errRead == nil && !s.CPUs.IsSubsetOf(wanted) {
			refused.Cause = fmt.Sprintf("group %s in it still has CPUs %s", path.Base(child), s.CPUs)
			break
		}
	}
	return err
}
