package confine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/sysfs"
)

const (
	runPrefix  = "/pinfold-run-"
	selfPrefix = "/pinfold-self-"
	leaf       = "/command" // below the run's group, contains the processes
	lockGroup  = "/pinfold-lock"

	// privateMode prevents other users from opening a group, and therefore from locking it. They
	// can still read its files, so that a command that has changed its user can read its own limit.
	privateMode = 0o711

	lockPatience = 10 * time.Second // how long to wait for other runs to start
	killPatience = 10 * time.Second // how long to wait for killed processes to end
	lockRetry    = 5 * time.Millisecond
)

// group is the cgroup of a run. The exported fields are passed to the helpers as JSON.
type group struct {
	Roots       map[cgroup.Controller]string // see cgrouptree.Parents
	Name        string                       // "/pinfold-run-..."
	Self        string                       // the group to which this process has moved to leave its own; may be ""
	Controllers []cgroup.Controller

	fs   *cgroup.FS // within Roots
	lock *os.File
}

// newGroup creates the group of a run, with its settings.
func newGroup(ctx context.Context, machine *cgroup.FS, s Spec) (*group, error) {
	g := &group{Controllers: []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct}}
	if s.CPUs != nil {
		g.Controllers = append(g.Controllers, cgroup.CPUSet)
	}
	parents, err := cgrouptree.FindParents(machine, g.Controllers...)
	if err != nil {
		return nil, err
	}
	g.Roots = parents.Groups
	g.fs = machine.Within(parents.Groups)
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
		cpus, err := g.choose(s, taken)
		if err != nil {
			return nil, err
		}
		wanted.CPUs = &cpus
	}
	if err := g.make(parents.MustLeave, s.Name, wanted); err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// choose calls the function that chooses the CPUs.
func (g *group) choose(s Spec, taken cpuset.Set) (cpuset.Set, error) {
	parent, err := g.fs.Effective("/")
	if err != nil {
		return cpuset.Set{}, err
	}
	affinity, err := sysfs.Affinity()
	if err != nil {
		return cpuset.Set{}, err
	}
	return s.CPUs(Room{Parent: parent, Affinity: affinity, Taken: taken})
}

// make creates the groups, with a unique name if the name is empty. If it fails, remove must be
// called.
func (g *group) make(leaveRoot bool, name string, wanted cgroup.Wanted) (err error) {
	id := newID()
	if leaveRoot {
		if err := cgrouptree.LeaveRoot(g.fs, selfPrefix+id); err != nil {
			return err
		}
		g.Self = selfPrefix + id
	}
	if name == "" {
		name = id
	}
	if err := cgrouptree.MakeMode(g.fs, runPrefix+name, privateMode, g.Controllers...); err != nil {
		return err
	}
	g.Name = runPrefix + name
	if g.lock, err = tryLock(g.fs.Dir(cgroup.CPU, g.Name)); err != nil {
		return err
	}
	if wanted.Burst != nil && *wanted.Burst > 0 {
		if err := g.fs.CheckBurst(); err != nil {
			return err
		}
	}
	if err := g.fs.Apply(map[string]cgroup.Wanted{g.Name: wanted}).Err(); err != nil {
		return err
	}
	return cgrouptree.Make(g.fs, g.Name+leaf, g.Controllers...)
}

// newID returns a unique name.
func newID() string {
	return fmt.Sprintf("%d-%s", os.Getpid(), strings.ToLower(rand.Text()[:8]))
}

// remove kills the processes in the group, removes it, and moves this process back to its original
// group. It may be called again after it has failed.
func (g *group) remove() error {
	ctx, cancel := context.WithTimeout(context.Background(), killPatience)
	defer cancel()
	if g.Name != "" {
		err := cgrouptree.Kill(ctx, g.fs, g.Name, g.Controllers...)
		if err = errors.Join(err, g.removeDirs(ctx)); err != nil {
			return fmt.Errorf("%w: the next 'pinfold run' from here tries again", err)
		}
	}
	if g.Self != "" {
		return cgrouptree.ReturnToRoot(ctx, g.fs, g.Self)
	}
	return nil
}

// removeDirs removes the directories of the group. That with the lock is last, because other runs
// find the group by it.
func (g *group) removeDirs(ctx context.Context) (err error) {
	for _, c := range []cgroup.Controller{cgroup.CPUSet, cgroup.CPUAcct, cgroup.CPU} {
		err = errors.Join(err, cgrouptree.Remove(ctx, g.fs, g.Name, c))
	}
	return err
}

// sweep removes the groups of runs that were killed together with their watchers. It returns the
// CPUs of the current runs.
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
			continue // it was removed meanwhile, or belongs to another user
		}
		stale := group{Name: name, Controllers: []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct, cgroup.CPUSet}, fs: g.fs}
		if err := stale.remove(); err != nil {
			notify(fmt.Sprintf("a run that was killed left %s, which cannot be removed: %v", name, err))
		} else {
			notify(fmt.Sprintf("removed %s, which a run that was killed has left", name))
		}
		held.Close()
	}
	for _, name := range g.others(selfPrefix) {
		_ = unix.Rmdir(g.fs.Dir(cgroup.CPU, name)) // fails while it contains a process
	}
	return taken
}

// others lists the groups with a prefix in the same place.
func (g *group) others(prefix string) []string {
	dir := g.fs.Dir(cgroup.CPU, "/")
	found, _ := filepath.Glob(dir + prefix + "*") // fails only for a bad pattern
	for i := range found {
		found[i] = strings.TrimPrefix(found[i], dir)
	}
	return found
}

// checkFree rejects the name of a current run. The groups of runs that were killed have been
// removed before.
func (g *group) checkFree(name string) error {
	group := runPrefix + name
	for _, c := range g.Controllers {
		dir := g.fs.Dir(c, group)
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %q is taken: another run has the control group %s; choose another name, or wait for its end", ErrName, name, dir)
		}
	}
	return nil
}

// IsRun reports whether a group belongs to a run.
func IsRun(group string) bool {
	return strings.HasPrefix("/"+filepath.Base(group), runPrefix)
}

// Runs returns the groups of all users' runs on a machine, except those inside containers of a
// kubelet, sorted. A [cgrouptree.UnlistedError] names the groups below which others may be.
func Runs(machine *cgroup.FS) ([]string, error) {
	top := machine.Dir(cgroup.CPU, "/")
	var groups []string
	var unlisted cgrouptree.UnlistedError
	_ = filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
		switch group := strings.TrimPrefix(dir, top); {
		case err != nil:
			unlisted.Add(dir, err)
		case !d.IsDir():
		case kubepods.IsTop(d.Name()):
			return fs.SkipDir
		case IsRun(group):
			groups = append(groups, filepath.Join("/", group))
			return fs.SkipDir
		default:
			if info, err := d.Info(); err == nil && cgroup.IsLeaf(info) {
				return fs.SkipDir
			}
		}
		return nil
	})
	slices.Sort(groups)
	return groups, unlisted.ErrorOrNil()
}
