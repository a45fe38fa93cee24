package cgroup

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"syscall"

	"pinfold.dev/pinfold/core/cpuset"
)

// Outcome is the result of [FS.Apply].
type Outcome struct {
	// Written lists the writes that were done, in order.
	Written []Write
	// Failed maps each group that does not have the wanted settings to the reason: it could not be
	// read, or a setting was invalid, was rejected, did not stay or had no effect.
	Failed map[string]error
}

// Err returns all failures as one error, or nil if there are none.
func (o Outcome) Err() error { return joined(o.Failed) }

func (o *Outcome) fail(group string, err error) {
	o.Failed[group] = errors.Join(o.Failed[group], err)
}

// nestedTries bounds the retries for a group that got a new child between the listing of its
// children and the write.
const nestedTries = 4

// Apply gives groups the wanted settings: it reads the present ones, writes those that differ in
// the order of [Plan], and reads each file back. A failure for one group does not affect the
// others. Groups with nothing wanted are only read.
func (fs *FS) Apply(wanted map[string]Wanted) Outcome {
	o := applyOnce(fs, wanted)
	for range nestedTries {
		blocked := map[string]Wanted{} // by a group below
		for group, w := range wanted {
			if w.Nested && errors.Is(o.Failed[group], syscall.EBUSY) {
				blocked[group] = w
			}
		}
		if len(blocked) == 0 {
			break
		}
		next := applyOnce(fs, blocked)
		o.Written = append(o.Written, next.Written...)
		for retried := range blocked {
			maps.DeleteFunc(o.Failed, func(group string, _ error) bool { return isBelow(group, retried) })
		}
		maps.Copy(o.Failed, next.Failed)
	}
	return o
}

// application is one pass of [FS.Apply].
type application struct {
	fs *FS
	Outcome
}

func applyOnce(fs *FS, wanted map[string]Wanted) Outcome {
	a := &application{fs, Outcome{Failed: map[string]error{}}}
	changes := a.withNested(a.observe(wanted))
	invalid := findInvalid(a.fs.layout, changes)
	for group, err := range invalid {
		a.fail(group, err)
	}
	writes := plan(a.fs.layout, changes, invalid)
	if len(writes) > 0 {
		if err := a.fs.CheckWritable(); err != nil {
			for _, w := range writes {
				a.Failed[w.Path] = err
			}
			return a.Outcome
		}
	}
	a.carryOut(writes)
	a.verifyEffective(changes)
	maps.DeleteFunc(a.Failed, func(group string, err error) bool {
		_, asked := wanted[group]
		return !asked && errors.Is(err, ErrGone) // a nested group was removed
	})
	return a.Outcome
}

// carryOut does the writes in order. It skips the remaining writes of a group that is gone.
func (a *application) carryOut(writes []Write) {
	for _, w := range writes {
		if errors.Is(a.Failed[w.Path], ErrGone) {
			continue
		}
		done, err := a.writeAndVerify(w)
		if done {
			a.Written = append(a.Written, w)
		}
		if err != nil {
			a.fail(w.Path, a.addBlocker(w, err))
		}
	}
}

// observe reads the present settings that the plan needs.
func (a *application) observe(wanted map[string]Wanted) []Change {
	var of Parts
	for _, w := range wanted {
		of.CPUs = of.CPUs || w.CPUs != nil || w.Partition != nil
		of.Bandwidth = of.Bandwidth || w.bandwidth()
	}
	var changes []Change
	for _, group := range slices.Sorted(maps.Keys(wanted)) {
		w := wanted[group]
		of.Weight = w.Weight != nil || w.Idle != nil // clearing idle sets the weight
		of.Idle = of.Weight
		of.BVT = w.BVT != nil
		of.Partition = w.Partition != nil || w.Exclusive != nil
		present, err := a.fs.ReadParts(group, of)
		if err != nil {
			a.fail(group, err)
			continue
		}
		changes = append(changes, Change{Path: group, Present: present, Wanted: w})
	}
	return changes
}

// writeAndVerify does one write and reports whether the file was written.
func (a *application) writeAndVerify(w Write) (bool, error) {
	if w.IfDiffers {
		found, err := a.fs.read(w.Path, w.File)
		if err != nil || same(w.File, w.Value, found) {
			return false, err
		}
	}
	if err := a.fs.write(w); err != nil {
		return false, err
	}
	found, err := a.fs.read(w.Path, w.File)
	if err != nil {
		return true, err
	}
	if same(w.File, w.Value, found) {
		return true, nil
	}
	if state, err := parsePartition(found); err == nil && w.File == CPUSetPartition {
		return true, &PartitionError{w.Path, Partition(w.Value), state}
	}
	return true, &MismatchError{w, found}
}

// verifyEffective checks that the groups run on the wanted CPUs, except those that partitions below
// have. Version 2 accepts any list and uses the part of it that is available.
func (a *application) verifyEffective(changes []Change) {
	for _, c := range changes {
		if c.Wanted.CPUs == nil || c.Wanted.CPUs.IsEmpty() || a.Failed[c.Path] != nil {
			continue
		}
		effective, err := a.fs.Effective(c.Path)
		if err == nil && effective != *c.Wanted.CPUs && effective != c.Wanted.CPUs.Difference(givenAway(a.fs, c.Path)) {
			err = &EffectiveError{c.Path, *c.Wanted.CPUs, effective}
		}
		if err != nil {
			a.fail(c.Path, err)
		}
	}
}

// withNested adds the changes of the groups below those with Wanted.Nested. They are needed on
// version 1, which does not take CPUs from a group while a group below has them. On version 2 the
// groups below follow by themselves.
func (a *application) withNested(changes []Change) []Change {
	if a.fs.layout.CPUSet != V1 {
		return changes
	}
	for _, c := range changes {
		if c.Wanted.Nested && c.Wanted.CPUs != nil && *c.Wanted.CPUs != c.Present.CPUs {
			changes = append(changes, a.nestedChanges(c)...)
		}
	}
	return changes
}

// nestedChanges returns the changes of the groups below one whose CPUs change. A group that had the
// same CPUs gets the same new ones. A group that had fewer keeps those that remain, or gets all if
// none does.
func (a *application) nestedChanges(parent Change) (all []Change) {
	children, err := a.fs.Children(CPUSet, parent.Path)
	if err != nil {
		return nil // if it matters, the kernel rejects the write
	}
	for _, child := range children {
		present, err := a.fs.ReadParts(child, Parts{CPUs: true})
		if err != nil || present.CPUs.IsEmpty() {
			continue
		}
		target := parent.Target().CPUs
		if kept := present.CPUs.Intersection(target); present.CPUs != parent.Present.CPUs && !kept.IsEmpty() {
			target = kept
		}
		change := Change{Path: child, Present: present, Wanted: Wanted{CPUs: &target}}
		all = append(append(all, change), a.nestedChanges(change)...)
	}
	return all
}

// addBlocker adds to the error of a rejected cpuset the group below that caused it.
func (a *application) addBlocker(w Write, err error) error {
	var refused *WriteError
	wanted, errParse := cpuset.Parse(w.Value)
	if w.File != CPUSetCPUs || !errors.As(err, &refused) || !errors.Is(err, syscall.EBUSY) || errParse != nil {
		return err
	}
	children, _ := a.fs.Children(CPUSet, w.Path) // without a list the error names no group
	for _, child := range children {
		if s, errRead := a.fs.ReadParts(child, Parts{CPUs: true}); errRead == nil && !s.CPUs.IsSubsetOf(wanted) {
			refused.Cause = fmt.Sprintf("group %s in it still has CPUs %s", path.Base(child), s.CPUs)
			break
		}
	}
	return err
}
