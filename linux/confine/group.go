package confine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
)

const (
	runPrefix  = "/pinfold-run-"
	selfPrefix = "/pinfold-self-"
	leaf       = "/command" // below the run's group: where the processes are
	lockGroup  = "/pinfold-lock"

	// privateMode keeps other users from opening a group, and so from locking it. They can
	// read its files: a command that has become another user reads its own limit there.
	privateMode = 0o711

	// Bounds on waiting for others: for runs that are being made, for processes that
	// were killed.
	lockPatience = 10 * time.Second
	killPatience = 10 * time.Second
	lockRetry    = 5 * time.Millisecond
)

// group is the control group of a run. Its fields say to the watcher, as JSON, what
// to remove.
type group struct {
	Roots map[cgroup.Controller]string // see cgroup.Home
	Name  string                       // "/pinfold-run-..."
	Self  string                       // where this process has stepped aside to; may be ""
	Of    []cgroup.Controller

	fs   *cgroup.FS // within Roots
	lock *os.File
}

// newGroup makes the group of a run, with its settings.
func newGroup(ctx context.Context, machine *cgroup.FS, s Spec) (*group, error) {
	g := &group{Of: []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct}}
	if s.CPUs != nil {
		g.Of = append(g.Of, cgroup.CPUSet)
	}
	home, err := machine.Home(g.Of...)
	if err != nil {
		return nil, err
	}
	g.Roots = home.Roots
	g.fs = machine.Within(home.Roots)
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	above, err := lockPlace(ctx, g.fs.Dir(cgroup.CPU, "/"))
	if err != nil {
		return nil, err
	}
	defer above.release()
	taken := g.sweep(s.Notify)
	if s.Name != "" {
		if err := g.checkFree(s.Name); err != nil {
			return nil, err
		}
	}
	wanted := s.Settings
	wanted.CPUs = nil
	if s.CPUs != nil {
		cpus, err := g.choose(s.CPUs, taken)
		if err != nil {
			return nil, err
		}
		wanted.CPUs = &cpus
	}
	if err := g.make(home.StepAside, s.Name, wanted); err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// choose asks for the CPUs.
func (g *group) choose(choose func(Room) (cpuset.Set, error), taken cpuset.Set) (cpuset.Set, error) {
	parent, err := g.fs.Effective("/")
	if err != nil {
		return cpuset.Set{}, err
	}
	affinity, err := affinity()
	if err != nil {
		return cpuset.Set{}, err
	}
	return choose(Room{Parent: parent, Affinity: affinity, Taken: taken})
}

// make makes the groups; without a name it makes one up. What it has made when it fails is for remove.
func (g *group) make(stepAside bool, name string, wanted cgroup.Wanted) (err error) {
	id := fmt.Sprintf("%d-%s", os.Getpid(), strings.ToLower(rand.Text()[:8]))
	if stepAside {
		if err := g.fs.StepAside(selfPrefix + id); err != nil {
			return err
		}
		g.Self = selfPrefix + id
	}
	if name == "" {
		name = id
	}
	if err := g.fs.MakeMode(runPrefix+name, privateMode, g.Of...); err != nil {
		return err
	}
	g.Name = runPrefix + name
	if g.lock, err = tryLock(g.fs.Dir(cgroup.CPU, g.Name)); err != nil {
		return err
	}
	if err := g.fs.Apply(map[string]cgroup.Wanted{g.Name: wanted}).Err(); err != nil {
		return err
	}
	return g.fs.Make(g.Name+leaf, g.Of...)
}

// remove kills what is in the group, removes it, and goes back to where this process
// was. It may be called again after it has failed.
func (g *group) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), killPatience)
	defer cancel()
	if g.Name != "" {
		err := g.fs.Kill(ctx, g.Name, g.Of...)
		// The directory with the lock goes last: where it is the group is found.
		for _, c := range []cgroup.Controller{cgroup.CPUSet, cgroup.CPUAcct, cgroup.CPU} {
			err = errors.Join(err, g.fs.Remove(ctx, g.Name, c))
		}
		if err != nil {
			return fmt.Errorf("%w: the next 'pinfold run' from here tries again", err)
		}
	}
	if g.Self != "" {
		return g.fs.StepBack(ctx, g.Self)
	}
	return nil
}

// sweep removes what runs that were killed together with their watchers have left,
// and returns the CPUs of those that are under way.
func (g *group) sweep(notify func(string)) (taken cpuset.Set) {
	for _, name := range g.others(runPrefix) {
		held, err := tryLock(g.fs.Dir(cgroup.CPU, name))
		if errors.Is(err, errHeld) {
			if s, err := g.fs.ReadParts(name, cgroup.Parts{CPUs: true}); err == nil {
				taken = taken.Union(s.CPUs)
			}
			continue
		}
		if err != nil {
			continue // it has gone meanwhile, or is another user's
		}
		left := group{Name: name, Of: []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct, cgroup.CPUSet}, fs: g.fs}
		if err := left.remove(); err != nil {
			notify(fmt.Sprintf("a run that was killed left %s, which cannot be removed: %v", name, err))
		} else {
			notify(fmt.Sprintf("removed %s, which a run that was killed has left", name))
		}
		held.Close()
	}
	for _, name := range g.others(selfPrefix) {
		_ = unix.Rmdir(g.fs.Dir(cgroup.CPU, name)) // refused while somebody is in it
	}
	return taken
}

// others lists the groups here with a prefix.
func (g *group) others(prefix string) []string {
	dir := g.fs.Dir(cgroup.CPU, "/")
	found, _ := filepath.Glob(dir + prefix + "*") // fails for a bad pattern only
	for i := range found {
		found[i] = strings.TrimPrefix(found[i], dir)
	}
	return found
}

// affinity returns the CPUs that this process may run on.
func affinity() (cpuset.Set, error) {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		return cpuset.Set{}, fmt.Errorf("ask for this process's CPUs: %w", err)
	}
	var s cpuset.Set
	for c := range cpuset.MaxCPUs {
		if mask.IsSet(c) {
			s.Add(cpuset.CPU(c))
		}
	}
	return s, nil
}
