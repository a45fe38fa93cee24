package cgroup

import (
	"errors"
	"maps"
	"slices"
	"strings"
)

// Outcome is what Apply did.
type Outcome struct {
	// Written lists the writes that were done, in their order.
	Written []Write
	// Failed says, by group, what could not be read, is not valid, was refused, did
	// not stay or has no effect. Groups that are not in it have what was wanted.
	Failed map[string]error
}

// Err returns all failures as one error; nil when there are none.
func (o Outcome) Err() error { return joined(o.Failed) }

func (o *Outcome) fail(path string, err error) {
	o.Failed[path] = errors.Join(o.Failed[path], err)
}

// Apply gives groups the settings that they should have: it reads what is there,
// writes what differs in the order of [Plan], and reads each file back. What fails
// for one group is no reason to leave out the others: every write is one that the
// kernel takes or refuses by itself, and the ones refused are in the outcome.
// Groups with nothing wanted are only looked at.
func (fs *FS) Apply(wanted map[string]Wanted) Outcome {
	o := fs.applyOnce(wanted)
	for range nestedTries {
		again := blocked(wanted, o)
		if len(again) == 0 {
			break
		}
		o.retake(again, fs.applyOnce(again))
	}
	return o
}

func (fs *FS) applyOnce(wanted map[string]Wanted) Outcome {
	o := Outcome{Failed: map[string]error{}}
	changes := fs.withNested(fs.observe(wanted, &o))
	invalid := Invalid(fs.layout, changes)
	for path, err := range invalid {
		o.fail(path, err)
	}
	writes := plan(fs.layout, changes, invalid)
	if len(writes) > 0 {
		if err := fs.CheckWritable(); err != nil {
			for _, w := range writes {
				o.Failed[w.Path] = err
			}
			return o
		}
	}
	fs.carryOut(writes, &o)
	fs.verifyEffective(changes, &o)
	maps.DeleteFunc(o.Failed, func(group string, err error) bool {
		_, asked := wanted[group]
		return !asked && errors.Is(err, ErrGone) // a nested group has ended
	})
	return o
}

// carryOut does the writes in their order. A group that is gone is not asked again.
func (fs *FS) carryOut(writes []Write, o *Outcome) {
	for _, w := range writes {
		if errors.Is(o.Failed[w.Path], ErrGone) {
			continue
		}
		done, err := fs.writeAndVerify(w)
		if done {
			o.Written = append(o.Written, w)
		}
		if err != nil {
			o.fail(w.Path, fs.nameBlocker(w, err))
		}
	}
}

// observe reads what the plan has to know.
func (fs *FS) observe(wanted map[string]Wanted, o *Outcome) []Change {
	var of Parts
	for _, w := range wanted {
		of.CPUs = of.CPUs || w.CPUs != nil
		of.Bandwidth = of.Bandwidth || w.bandwidth()
	}
	var changes []Change
	for _, path := range slices.Sorted(maps.Keys(wanted)) {
		w := wanted[path]
		of.Weight = w.Weight != nil || w.Idle != nil // clearing idle sets the weight
		of.Idle = of.Weight
		present, err := fs.ReadParts(path, of)
		if err != nil {
			o.fail(path, err)
			continue
		}
		changes = append(changes, Change{Path: path, Present: present, Wanted: w})
	}
	return changes
}

// writeAndVerify does one write and reports whether the file was written.
func (fs *FS) writeAndVerify(w Write) (bool, error) {
	if w.IfDiffers {
		found, err := fs.read(w.Path, w.File)
		if err != nil || same(w.File, w.Value, strings.TrimSpace(found)) {
			return false, err
		}
	}
	if err := fs.write(w); err != nil {
		return false, err
	}
	found, err := fs.read(w.Path, w.File)
	if err != nil {
		return true, err
	}
	if found = strings.TrimSpace(found); !same(w.File, w.Value, found) {
		return true, &MismatchError{w, found}
	}
	return true, nil
}

// verifyEffective looks at whether the groups run on the CPUs that they were given.
// Version 2 accepts any list and makes of it what it can.
func (fs *FS) verifyEffective(changes []Change, o *Outcome) {
	for _, c := range changes {
		if c.Wanted.CPUs == nil || c.Wanted.CPUs.IsEmpty() || o.Failed[c.Path] != nil {
			continue
		}
		effective, err := fs.Effective(c.Path)
		if err == nil && effective != *c.Wanted.CPUs {
			err = &EffectiveError{c.Path, *c.Wanted.CPUs, effective}
		}
		if err != nil {
			o.fail(c.Path, err)
		}
	}
}
