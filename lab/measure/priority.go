package measure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/priority"
	"pinfold.dev/pinfold/linux/scx"
	"pinfold.dev/pinfold/linux/sysfs"
)

// lackingPriorities returns why this machine lacks priorities, in words for users.
func (m machine) lackingPriorities(ctx context.Context) (map[experiment.Priority]string, error) {
	parents, err := cgrouptree.FindParents(m.Groups, cgroup.CPU)
	if err != nil {
		return nil, err
	}
	// A new group tells which files the kernel has.
	within, probe := m.Groups.Within(parents.Groups), fmt.Sprintf("/pinfold-lab-%d", os.Getpid())
	if err := cgrouptree.Make(within, probe, cgroup.CPU); err != nil {
		return nil, fmt.Errorf("find out what the kernel has: %w", err)
	}
	settings, err := within.ReadParts(probe, cgroup.Parts{Idle: true, BVT: true})
	if err := errors.Join(err, cgrouptree.Remove(ctx, within, probe, cgroup.CPU)); err != nil {
		return nil, fmt.Errorf("find out what the kernel has: %w", err)
	}
	found := priority.Lacking("/", m.Groups, settings, priority.CheckCores())
	noScheduler := ""
	if err := scx.Test(); err != nil {
		noScheduler = err.Error()
	} else if running := scx.Running(); running != "" {
		noScheduler = fmt.Sprintf("%v, %s: end that", scx.ErrBusy, running)
	}
	return map[experiment.Priority]string{
		experiment.CoreScheduling: found[colocation.CoreScheduling],
		experiment.GroupIdentity:  found[colocation.BVT],
		experiment.SchedExt:       noScheduler,
	}, nil
}

// behind puts the threads of a service behind everything else, by more than settings of its groups.
type behind struct {
	give func() error // for the threads that the service has now
	end  func() error
}

// putBehind puts a service behind the others by the mechanism that is its priority. It returns nil
// if the settings of its groups, or nothing at all, does that.
func (c controller) putBehind(s *service) (*behind, error) {
	groups := c.machine.Groups
	switch {
	case s.Count() == 0:
		return nil, nil
	case s.Priority == experiment.CoreScheduling:
		cookies, err := priority.OpenCookies(groups, filepath.Join(c.dir, "cookie"))
		if err != nil {
			return nil, err
		}
		give := func() error { return cookies.Give(s.groups()) }
		return &behind{give, func() error { return nil }}, give() // the cookie ends with its threads
	case s.Priority == experiment.SchedExt:
		scheduler, err := c.loadScheduler(s)
		if err != nil {
			return nil, err
		}
		give := func() error {
			if why, ok := scheduler.Ended(); ok {
				return fmt.Errorf("the kernel has ended the scheduler of %s: %s", s.Name, why)
			}
			_, err := scx.TurnOver(groups, s.groups())
			return err
		}
		if err := give(); err != nil {
			return nil, errors.Join(err, scheduler.Close())
		}
		return &behind{give, scheduler.Close}, nil
	}
	return nil, nil
}

// loadScheduler loads a scheduler for a service, and attaches it.
func (c controller) loadScheduler(s *service) (*scx.Scheduler, error) {
	machine, _, err := sysfs.Host(cpuset.Set{})
	if err != nil {
		return nil, fmt.Errorf("read the topology: %w", err)
	}
	scheduler, err := scx.Load(scx.Options{})
	if err != nil {
		return nil, err
	}
	var pods []scx.Pod
	for _, group := range s.groups() {
		id, errGroup := c.machine.Groups.Inode(cgroup.CPU, group)
		err = errors.Join(err, errGroup)
		pods = append(pods, scx.Pod{Group: id, Weight: 100})
	}
	if err = errors.Join(err, scheduler.SetMachine(machine), scheduler.SetPods(pods)); err == nil {
		err = scheduler.Attach()
	}
	if err != nil {
		return nil, errors.Join(err, scheduler.Close())
	}
	return scheduler, nil
}

// giveEvery is how often threads that have started are put behind, as in the agent.
const giveEvery = time.Second

// keep puts threads behind until ctx ends.
func (b *behind) keep(ctx context.Context) error {
	for sleep.For(ctx, giveEvery) {
		if err := b.give(); err != nil {
			return errors.Join(err, b.end())
		}
	}
	return b.end()
}
