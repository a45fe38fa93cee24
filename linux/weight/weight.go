package weight

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/owned"
)

// fileName is the file with the weights from before, below the root of the machine: in the directory
// of the agent, whose container has it, too.
const fileName = "run/pinfold/weights"

// ErrRaised reports that another process has raised weights.
var ErrRaised = errors.New("another recording with --weight is in progress: wait for its end")

// Largest returns the largest weight of a version, in the unit of its file: MAX_SHARES of
// kernel/sched/sched.h and CGROUP_WEIGHT_MAX of include/linux/cgroup.h.
func Largest(v cgroup.Version) cgroup.Weight {
	if v == cgroup.V1 {
		return 1 << 18
	}
	return 10000
}

// Raised are groups with the largest weight.
type Raised struct {
	fs     *cgroup.FS
	chains map[string][]string      // of each group that was asked for: itself and those above it
	before map[string]cgroup.Weight // of the groups that are raised
	left   map[string]bool          // those whose weight somebody has changed
	file   *os.File
	helper *helper
}

// Raise gives groups, and all above them, the largest weight. It changes nothing if that is not
// possible for one of them. Messages go to stderr.
func Raise(fs *cgroup.FS, groups []string, stderr io.Writer) (*Raised, error) {
	r := &Raised{fs: fs, chains: map[string][]string{}, before: map[string]cgroup.Weight{}, left: map[string]bool{}}
	for _, group := range groups {
		if err := r.add(path.Clean("/" + group)); err != nil {
			return nil, err
		}
	}
	if err := fs.CheckWritable(); err != nil {
		return nil, err
	}
	name := filepath.Join(fs.Root(), fileName)
	err := owned.Make(filepath.Dir(name), 0o700)
	if err == nil {
		r.file, err = owned.Lock(name)
	}
	switch {
	case errors.Is(err, owned.ErrHeld):
		return nil, ErrRaised
	case err != nil:
		return nil, fmt.Errorf("keep the weights for later: %w: run as root, on the machine itself", err)
	}
	if err := putBack(fs, r.file, stderr); err != nil { // those of a process that was killed
		return nil, errors.Join(err, r.file.Close())
	}
	if err := r.raise(stderr); err != nil {
		return nil, errors.Join(err, r.Restore())
	}
	return r, nil
}

// add adds a group and those above it.
func (r *Raised) add(group string) error {
	if group == "/" {
		return errors.New("the root group / has no weight: name a group below it")
	}
	if err := r.fs.CheckEnabled(group, cgroup.CPU); err != nil {
		return err
	}
	for at := group; at != "/"; at = path.Dir(at) {
		s, err := r.fs.ReadParts(at, cgroup.Parts{Weight: true, Idle: true})
		switch {
		case err != nil:
			return err
		case s.Idle:
			return fmt.Errorf("%s is idle (cpu.idle), and has no weight: record it as it is", at)
		}
		r.chains[group] = append(r.chains[group], at)
	}
	return nil
}

// raise saves the present weights, starts the helper and writes the largest weight.
func (r *Raised) raise(stderr io.Writer) error {
	largest, wanted := Largest(r.fs.Layout().CPU), map[string]cgroup.Wanted{}
	for _, chain := range r.chains {
		for _, group := range chain {
			s, err := r.fs.ReadParts(group, cgroup.Parts{Weight: true})
			if err != nil {
				return err
			}
			if s.Weight != largest {
				r.before[group], wanted[group] = s.Weight, cgroup.Wanted{Weight: &largest}
			}
		}
	}
	if err := save(r.file, r.before); err != nil {
		return err
	}
	var err error
	if r.helper, err = startHelper(r.fs.Root(), r.file, stderr); err != nil {
		return err
	}
	return r.fs.Apply(wanted).Err()
}

// Groups returns the groups whose weight was changed, sorted.
func (r *Raised) Groups() []string { return slices.Sorted(maps.Keys(r.before)) }

// Keep raises again what somebody has put back, and returns the groups, of those that were asked for,
// which have the largest weight, with all above them.
func (r *Raised) Keep() (held map[string]bool) {
	largest := Largest(r.fs.Layout().CPU)
	for group, before := range r.before {
		s, err := r.fs.ReadParts(group, cgroup.Parts{Weight: true})
		if err == nil && s.Weight == before {
			err = r.fs.Apply(map[string]cgroup.Wanted{group: {Weight: &largest}}).Err()
		} else if err == nil && s.Weight != largest {
			err = errChanged
		}
		r.left[group] = err != nil
	}
	held = map[string]bool{}
	for group, chain := range r.chains {
		held[group] = !slices.ContainsFunc(chain, func(at string) bool { return r.left[at] })
	}
	return held
}

var errChanged = errors.New("somebody has changed it")

// Restore puts back the weights from before.
func (r *Raised) Restore() error {
	var err error
	if r.helper != nil {
		err = r.helper.end()
	}
	if r.helper == nil || err != nil { // it was killed
		err = finish(r.fs, r.file, io.Discard)
	}
	return errors.Join(err, r.file.Close())
}

// Clean puts back what a process has raised that was killed together with its helper. It does nothing
// while weights are raised.
func Clean(fs *cgroup.FS) error {
	name := filepath.Join(fs.Root(), fileName)
	if _, err := os.Lstat(name); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	file, err := owned.Lock(name)
	if errors.Is(err, owned.ErrHeld) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("put back weights: %w", err)
	}
	defer file.Close()
	return finish(fs, file, io.Discard)
}

// finish puts back the weights in a file, which is locked, and removes it.
func finish(fs *cgroup.FS, file *os.File, stderr io.Writer) error {
	if err := putBack(fs, file, stderr); err != nil {
		return err
	}
	return os.Remove(file.Name())
}

// putBack puts back the weights in a file, which is locked. It leaves those that somebody has
// changed, with a message.
func putBack(fs *cgroup.FS, file *os.File, stderr io.Writer) error {
	largest, wanted := Largest(fs.Layout().CPU), map[string]cgroup.Wanted{}
	before := load(file)
	for _, group := range slices.Sorted(maps.Keys(before)) {
		s, err := fs.ReadParts(group, cgroup.Parts{Weight: true})
		switch {
		case cgroup.IsGone(err):
		case err != nil:
			return fmt.Errorf("put back the weight %d of %s: %w", before[group], group, err)
		case s.Weight == largest:
			wanted[group] = cgroup.Wanted{Weight: new(before[group])}
		case s.Weight != before[group]:
			fmt.Fprintf(stderr, "pinfold: %s has the weight %d, which somebody has set meanwhile: it stays\n", group, s.Weight)
		}
	}
	failed := fs.Apply(wanted).Failed
	maps.DeleteFunc(failed, func(_ string, err error) bool { return cgroup.IsGone(err) })
	if len(failed) > 0 {
		return fmt.Errorf("put back the weights in %s: %w", file.Name(), errors.Join(slices.Collect(maps.Values(failed))...))
	}
	return nil
}

// save writes the weights of groups to the file.
func save(file *os.File, weights map[string]cgroup.Weight) error {
	text, err := json.Marshal(weights)
	if err == nil {
		err = file.Truncate(0)
	}
	if err == nil {
		_, err = file.WriteAt(text, 0)
	}
	if err != nil {
		return fmt.Errorf("keep the weights for later: %w", err)
	}
	return nil
}

// load reads what save has written. A file that is not complete has no weights, because nothing was
// raised then.
func load(file *os.File) (weights map[string]cgroup.Weight) {
	if json.NewDecoder(io.NewSectionReader(file, 0, math.MaxInt64)).Decode(&weights) != nil {
		return nil
	}
	return weights
}
