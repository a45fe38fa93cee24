package confine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
)

// sweepPatience is how long runs wait for each other before they leave a cleanup to the next one.
const sweepPatience = time.Second

// isPlaced reports whether a group contains processes that ran already.
func isPlaced(group string) bool { return strings.HasPrefix("/"+filepath.Base(group), pidPrefix) }

func isLock(group string) bool { return "/"+filepath.Base(group) == lockGroup }

func isOurs(group string) bool { return isPlaced(group) || isLock(group) }

func allControllers() []cgroup.Controller {
	return []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct, cgroup.CPUSet}
}

// makePlaced creates the group for processes that run already. If it fails, putBack must be called.
func (g *group) makePlaced(wanted cgroup.Wanted) (err error) {
	g.Name = pidPrefix + newID()
	if err := cgrouptree.MakeMode(g.fs, g.Name, privateMode, g.Controllers...); err != nil {
		return err
	}
	if g.lock, err = tryLock(g.fs.Dir(cgroup.CPU, g.Name)); err != nil {
		return err
	}
	if err := cgrouptree.MakeThreaded(g.fs, g.Name, g.Controllers...); err != nil {
		return err
	}
	return g.fs.Apply(map[string]cgroup.Wanted{g.Name: wanted}).Err()
}

// hold places the processes until they end, ctx ends or a signal comes, and reads the statistics.
func (g *group) hold(ctx context.Context, s Spec, caught *signals) (*Result, error) {
	began := time.Now()
	n, err := g.place(ctx)
	if err != nil {
		return nil, &ProcessError{err}
	}
	s.Notify(fmt.Sprintf("processes placed in %s: %d", g.fs.Dir(cgroup.CPU, g.Name), n))
	g.await(ctx, caught)
	r := &Result{Wall: time.Since(began), Terminated: ctx.Err() != nil}
	threads, err := cgrouptree.ThreadsIn(g.fs, g.fs.Dir(cgroup.CPU, g.Name))
	for _, id := range threads {
		if p, err := openProcess(id); err == nil { // not another thread of a process
			p.handle.Close()
			r.LeftBehind++
		}
	}
	err = errors.Join(err, g.read(r))
	r.Uncounted = err != nil
	return r, err
}

// place moves the processes and those below them to the group, and returns their number. It looks
// again for processes that were started meanwhile by those that were not yet in it.
func (g *group) place(ctx context.Context) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	above, err := lockPlace(ctx, g.fs.Dir(cgroup.CPU, "/")) // against another run of the same processes
	if err != nil {
		return 0, err
	}
	defer above.release()
	var named []int
	for _, p := range g.processes {
		if err := g.move(p); err != nil {
			return 0, err
		}
		named = append(named, p.pid)
	}
	n = len(named)
	for before := 0; n > before; {
		before = n
		tree := withDescendants(named)
		for _, pid := range tree[len(named):] {
			moved, err := g.moveBelow(pid, tree)
			if err != nil {
				return 0, err
			}
			if moved {
				n++
			}
		}
	}
	return n, nil
}

// moveBelow moves a descendant, unless it has ended or is in other groups than those above it.
func (g *group) moveBelow(pid int, tree []int) (bool, error) {
	p, err := openProcess(pid)
	if err != nil {
		return false, nil
	}
	defer p.handle.Close()
	s, err := readStat(pid)
	in, err2 := cgrouptree.GroupsOf(g.machine, pid)
	if err != nil || err2 != nil || g.isElsewhere(in) || !slices.Contains(tree, s.PPID) { // not if another process has its id
		return false, nil
	}
	if err = g.move(p); p.hasEnded() {
		err = nil
	}
	return err == nil, err
}

// isElsewhere reports whether groups are not those in which the run's group was created.
func (g *group) isElsewhere(groups map[cgroup.Controller]string) bool {
	return slices.ContainsFunc(g.Controllers, func(c cgroup.Controller) bool { return groups[c] != g.Roots[c] })
}

// move moves a process to the group, if it still is where it was found.
func (g *group) move(p *process) error {
	in, err := freeGroups(g.machine, p.pid)
	if err == nil && g.isElsewhere(in) {
		err = fmt.Errorf("process %d was moved to another control group meanwhile", p.pid)
	}
	if err == nil && slices.Contains(g.Controllers, cgroup.CPUSet) {
		var cpus cpuset.Set
		if cpus, err = g.fs.Effective("/"); err == nil {
			err = checkAffinity(p.pid, cpus)
		}
	}
	if err == nil && !p.hasEnded() {
		err = cgrouptree.Move(g.fs, g.Name, p.pid, g.Controllers...)
	}
	if p.hasEnded() {
		return fmt.Errorf("process %d has ended", p.pid)
	}
	return err
}

// await returns when all processes that were named have ended, ctx has, or a signal came.
func (g *group) await(ctx context.Context, caught *signals) {
	var running sync.WaitGroup
	for _, p := range g.processes {
		running.Go(p.awaitEnd)
		defer p.handle.Close() // ends awaitEnd
	}
	ended := make(chan struct{})
	go func() { running.Wait(); close(ended) }()
	for {
		select {
		case <-ended:
			return
		case <-ctx.Done():
			return
		case sig := <-caught.c:
			if sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 {
				return
			}
		}
	}
}

// lockAndPutBack is putBack for callers that do not hold the lock of the place.
func (g *group) lockAndPutBack(ctx context.Context) error {
	if err := cgrouptree.MoveUp(ctx, g.fs, g.Name, g.Controllers...); err != nil {
		return err
	}
	above, err := lockPlace(ctx, g.fs.Dir(cgroup.CPU, "/"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // the group above was removed, and this one with it
	}
	if err != nil {
		return err
	}
	defer above.release()
	return g.putBack(ctx)
}

// putBack moves the processes in the group to the group above, from which they came, and removes
// it. The place must be locked.
func (g *group) putBack(ctx context.Context) error {
	err := cgrouptree.MoveUp(ctx, g.fs, g.Name, g.Controllers...)
	if err == nil {
		err = g.tidyPlace()
	}
	if err == nil {
		err = g.removeDirs(ctx)
	}
	if err != nil {
		return fmt.Errorf("%w: the next 'pinfold run' tries again", err)
	}
	return nil
}

// tidyPlace restores the group above, if no group but this one needs what has changed there.
func (g *group) tidyPlace() error {
	children, err := g.fs.Children(cgroup.CPU, "/")
	if err != nil || slices.ContainsFunc(children, func(c string) bool { return c != g.Name && !isLock(c) }) {
		return err
	}
	return cgrouptree.StopThreaded(g.fs, "/", cgroup.CPU, cgroup.CPUSet)
}

// putBackAll puts back what runs have placed that were killed together with their watchers, on the
// whole machine. The groups themselves say what there is to do: processes belong one level above.
func putBackAll(ctx context.Context, machine *cgroup.FS, notify func(string)) {
	ctx, cancel := context.WithTimeout(ctx, sweepPatience)
	defer cancel()
	roots := map[string]map[cgroup.Controller]string{} // by the name of a group, or the path of a lock
	for _, c := range allControllers() {
		if machine.Hierarchy(c).Mount == "" {
			continue // version 2 has no cpuacct
		}
		found, _ := find(machine, c, isOurs) // without them there is less to do
		for _, group := range found {
			name := group
			if isPlaced(group) {
				name = "/" + path.Base(group) // unique, in other places in other hierarchies
			}
			if roots[name] == nil {
				roots[name] = map[cgroup.Controller]string{}
			}
			roots[name][c] = path.Dir(group)
		}
	}
	for name, roots := range roots {
		left := group{Controllers: allControllers(), fs: machine.Within(roots)}
		if !isLock(name) {
			left.Name = name
		}
		left.putBackLeft(ctx, notify)
	}
}

// putBackLeft puts back what is in a group, if this user created it and its run and watcher were
// killed. Without a name, it cleans up after a run that was killed while it held the place's lock.
func (g *group) putBackLeft(ctx context.Context, notify func(string)) {
	dir := g.fs.Dir(cgroup.CPU, cmp.Or(g.Name, lockGroup))
	if info, err := os.Lstat(dir); err != nil || info.Mode().Perm()&^privateMode != 0 || int(info.Sys().(*syscall.Stat_t).Uid) != os.Geteuid() {
		return
	}
	above, err := lockPlace(ctx, g.fs.Dir(cgroup.CPU, "/"))
	if err != nil {
		return // another run is at work there
	}
	defer above.release()
	if g.Name == "" {
		_ = g.tidyPlace() // the next run tries again
		return
	}
	held, err := tryLock(dir)
	if err != nil {
		return // the run continues
	}
	defer held.Close()
	if err := g.putBack(ctx); err != nil {
		notify(fmt.Sprintf("a run that was killed left %s: %v", dir, err))
	} else {
		notify(fmt.Sprintf("put back the processes in %s, which a run that was killed has left", dir))
	}
}
