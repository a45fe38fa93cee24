package control

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
)

// NotPartitioned is the reason of the note that a container could not become a partition.
const NotPartitioned = "NotPartitioned"

// A container that could not become a partition is tried again after firstPartitionPause, then
// after twice that time, and so on up to lastPartitionPause: each attempt makes the kernel rebuild
// its scheduling domains.
const (
	firstPartitionPause = 30 * time.Second
	lastPartitionPause  = 10 * time.Minute
)

// unpartitioned is a container that could not become a partition.
type unpartitioned struct {
	ref   nodeplan.Ref
	cpus  cpuset.Set
	err   error
	again time.Time // when to try again
	pause time.Duration
}

// partitions are the planned cpuset partitions.
type partitions struct {
	roots map[string]cpuset.Set // containers, by path
	// exclusive is cpuset.cpus.exclusive of these and of all groups above.
	exclusive map[string]cpuset.Set
	// obstacle is a group above the pods that is a partition itself, or "". The kernel then accepts
	// no partition below, and what the groups above have is left alone.
	obstacle string
}

// planPartitions returns the partitions of a plan: every container with exclusive CPUs, if that is
// configured.
func (c *Control) planPartitions(d nodeplan.Desired, g groups, now time.Time) partitions {
	p := partitions{roots: map[string]cpuset.Set{}, exclusive: map[string]cpuset.Set{}}
	for _, group := range c.abovePods() {
		if c.view.Settings[group].Partition.Is() {
			p.obstacle = group
		}
	}
	failed := c.unpartitioned
	c.unpartitioned = map[string]unpartitioned{}
	if !c.config.Partitioned() || p.obstacle != "" {
		return p
	}
	for i := range d.Pods {
		for j := range d.Pods[i].Containers {
			container := &d.Pods[i].Containers[j]
			ref := nodeplan.Ref{Pod: d.Pods[i].ID, Container: container.Name}
			group := g.containers[ref]
			if !container.Sole || !c.exists(group) {
				continue
			}
			f, ok := failed[group]
			if !ok || f.cpus != container.CPUs {
				f = unpartitioned{ref: ref, cpus: container.CPUs}
			}
			c.unpartitioned[group] = f // until it is one
			if !now.Before(f.again) {
				p.add(group, container.CPUs)
			}
		}
	}
	return p
}

func (p *partitions) add(group string, cpus cpuset.Set) {
	p.roots[group] = cpus
	for ; group != "/"; group = path.Dir(group) {
		p.exclusive[group] = p.exclusive[group].Union(cpus)
	}
}

// abovePods returns the groups above the pods.
func (c *Control) abovePods() []string { return slices.Concat(c.view.Above, c.view.Tiers) }

// release ends the partitions that do not stay as they are, before their CPUs change hands.
func (p *partitions) release(c *Control, a *Decision) {
	above := c.abovePods()
	for group, s := range c.view.Settings {
		if p.obstacle != "" && slices.Contains(above, group) {
			continue
		}
		var w cgroup.Wanted
		exclusive := s.Exclusive.Intersection(p.exclusive[group])
		if s.Partition.Is() && !p.has(c, group, s) {
			w.Partition, exclusive = new(cgroup.PartitionMember), cpuset.Set{}
		}
		if exclusive != s.Exclusive {
			w.Exclusive = &exclusive
		}
		if w != (cgroup.Wanted{}) {
			a.Release[group] = w
		}
	}
}

// has reports whether a group is the partition that it is to be.
func (p *partitions) has(c *Control, group string, s cgroup.Settings) bool {
	cpus, ok := p.roots[group]
	return ok && s.Partition == cgroup.PartitionState{Kind: c.config.Partition} && s.CPUs == cpus && s.Exclusive == cpus
}

// make makes partitions, after their CPUs have changed hands.
func (p *partitions) make(c *Control, a *Decision) {
	a.exclusive = p.exclusive
	for group, cpus := range p.exclusive {
		if s, ok := c.view.Settings[group]; ok && !cpus.IsSubsetOf(s.Exclusive) {
			a.Partitions[group] = cgroup.Wanted{Exclusive: &cpus}
		}
	}
	for group, cpus := range p.roots {
		if s := c.view.Settings[group]; !p.has(c, group, s) {
			a.Partitions[group] = cgroup.Wanted{Exclusive: &cpus, Partition: &c.config.Partition}
		}
	}
}

// partition makes partitions of the containers that have their CPUs. A container that does not
// become one is a member again, and the groups above do not keep its CPUs exclusively.
func (r *Result) partition(a Decision, apply func(map[string]cgroup.Wanted) cgroup.Outcome) {
	wanted := maps.Clone(a.Partitions)
	for group, w := range a.Partitions {
		if w.Partition != nil && (r.Failed[group] != nil || a.Held[group].CPUs != *w.Exclusive) {
			delete(wanted, group)
			a.withdraw(wanted, group)
		}
	}
	tried := Result{Failed: map[string]error{}, applied: r.applied}
	tried.apply(wanted, apply)
	r.Written = append(r.Written, tried.Written...)
	back := map[string]cgroup.Wanted{}
	for group, err := range tried.Failed {
		if wanted[group].Partition == nil {
			continue // a group above, whose containers have failed, too
		}
		a.withdraw(back, group)
		if errors.Is(err, cgroup.ErrGone) {
			r.fail(group, err)
			continue
		}
		back[group] = cgroup.Wanted{Partition: new(cgroup.PartitionMember), Exclusive: &cpuset.Set{}}
		for above := path.Dir(group); above != "/"; above = path.Dir(above) {
			err = errors.Join(err, tried.Failed[above])
		}
		r.Unpartitioned[group] = err
	}
	r.apply(back, apply)
}

// withdraw takes the CPUs of a container that does not become a partition from the groups above.
func (a Decision) withdraw(wanted map[string]cgroup.Wanted, group string) {
	cpus := *a.Partitions[group].Exclusive
	for above := path.Dir(group); above != "/"; above = path.Dir(above) {
		a.exclusive[above] = a.exclusive[above].Difference(cpus)
		wanted[above] = cgroup.Wanted{Exclusive: new(a.exclusive[above])}
	}
}

// rememberPartitions records which containers could not become partitions.
func (c *Control) rememberPartitions(r Result) {
	for group, f := range c.unpartitioned {
		if err := r.Unpartitioned[group]; err != nil {
			f.err, f.pause = err, min(max(2*f.pause, firstPartitionPause), lastPartitionPause)
			f.again = c.now.Add(f.pause)
			c.unpartitioned[group] = f
		} else if !c.now.Before(f.again) {
			delete(c.unpartitioned, group) // it is one, or its CPUs could not be set
		}
	}
}

// partitionNotes returns the notes about containers that could not become partitions.
func (c *Control) partitionNotes() (notes []Notice) {
	if c.view == nil || c.kubelet == nil || !c.config.Partitioned() {
		return nil
	}
	for _, group := range c.abovePods() {
		if c.view.Settings[group].Partition.Is() {
			return []Notice{{Reason: NotPartitioned, Message: fmt.Sprintf("no container can be a cpuset partition, because %s is one: "+
				"make that a member, or run the agent with --partition=none", group)}}
		}
	}
	for _, group := range slices.Sorted(maps.Keys(c.unpartitioned)) {
		f := c.unpartitioned[group]
		if f.err == nil {
			continue
		}
		notes = append(notes, c.NewNotice(f.ref.Pod, NotPartitioned, fmt.Sprintf("CPUs %s of container %q of pod %s are not a cpuset partition, "+
			"so processes outside of Kubernetes may run on them: %v", f.cpus, f.ref.Container, c.podName(f.ref.Pod), f.err)))
	}
	return notes
}
