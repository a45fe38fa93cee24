package cpus

import (
	"path"
	"slices"
	"time"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
)

// A container that could not become a partition is tried again after firstPause, then after twice
// that time, and so on up to lastPause: each attempt makes the kernel rebuild its scheduling
// domains.
const (
	firstPause = 30 * time.Second
	lastPause  = 10 * time.Minute
)

// unpartitioned is a container that is not the partition that it is to be.
type unpartitioned struct {
	ref   nodeplan.Ref
	cpus  cpuset.Set
	err   error     // of the last attempt, nil before it
	again time.Time // when to try again
	pause time.Duration
}

// Lacks reports whether a container is not the partition that it is to be.
func (c *Controller) Lacks(container string) bool {
	return c.unpartitioned[container].ref.Container != ""
}

// obstacle returns a group above the pods that is a partition itself, or "". The kernel then
// accepts no partition below, and what the groups above have is left alone.
func obstacle(g *groups.Groups) string {
	for _, group := range g.AbovePods() {
		if g.Settings[group].Partition.Is() {
			return group
		}
	}
	return ""
}

// partitions are the planned cpuset partitions.
type partitions struct {
	kind  cgroup.Partition
	roots map[string]cpuset.Set // containers, by path
	// exclusive is cpuset.cpus.exclusive of these and of all groups above.
	exclusive map[string]cpuset.Set
	obstacle  string
}

// planPartitions returns the partitions of a plan: every container with exclusive CPUs, if that is
// configured.
func (c *Controller) planPartitions(r *groups.Round) partitions {
	p := partitions{kind: c.partition, roots: map[string]cpuset.Set{}, exclusive: map[string]cpuset.Set{}, obstacle: obstacle(r.Groups)}
	failed := c.unpartitioned
	c.unpartitioned = map[string]unpartitioned{}
	if c.partition == "" || p.obstacle != "" {
		return p
	}
	for i := range r.Plan.Pods {
		for j := range r.Plan.Pods[i].Containers {
			container := &r.Plan.Pods[i].Containers[j]
			ref := nodeplan.Ref{Pod: r.Plan.Pods[i].ID, Container: container.Name}
			group := r.Container[ref]
			if !container.Sole || !r.Exists(group) {
				continue
			}
			f, ok := failed[group]
			if !ok || f.cpus != container.CPUs {
				f = unpartitioned{ref: ref, cpus: container.CPUs}
			}
			c.unpartitioned[group] = f // until it is one
			if !r.Now.Before(f.again) {
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

// release ends the partitions that do not stay as they are, before their CPUs change hands.
func (p *partitions) release(r *groups.Round, a *groups.Changes) {
	above := r.AbovePods()
	for group, s := range r.Settings {
		if p.obstacle != "" && slices.Contains(above, group) {
			continue
		}
		var w cgroup.Wanted
		exclusive := s.Exclusive.Intersection(p.exclusive[group])
		if s.Partition.Is() && !p.has(group, s) {
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
func (p *partitions) has(group string, s cgroup.Settings) bool {
	cpus, ok := p.roots[group]
	return ok && s.Partition == cgroup.PartitionState{Kind: p.kind} && s.CPUs == cpus && s.Exclusive == cpus
}

// make makes partitions, after their CPUs have changed hands.
func (p *partitions) make(r *groups.Round, a *groups.Changes) {
	a.Exclusive = p.exclusive
	for group, cpus := range p.exclusive {
		if s, ok := r.Settings[group]; ok && !cpus.IsSubsetOf(s.Exclusive) {
			a.Partitions[group] = cgroup.Wanted{Exclusive: &cpus}
		}
	}
	for group, cpus := range p.roots {
		if s := r.Settings[group]; !p.has(group, s) {
			a.Partitions[group] = cgroup.Wanted{Exclusive: &cpus, Partition: &p.kind}
		}
	}
}

// partitioned records which containers could not become partitions, by path.
func (c *Controller) partitioned(now time.Time, failed map[string]error) {
	for group, f := range c.unpartitioned {
		if err := failed[group]; err != nil {
			f.err, f.pause = err, min(max(2*f.pause, firstPause), lastPause)
			f.again = now.Add(f.pause)
			c.unpartitioned[group] = f
		} else if !now.Before(f.again) {
			delete(c.unpartitioned, group) // it is one, or its CPUs could not be set
		}
	}
}
