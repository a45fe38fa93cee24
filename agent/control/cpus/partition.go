package cpus

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"pinfold.dev/pinfold/agent/control/node"
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
	kind  cgroup.Partition
	roots map[string]cpuset.Set // containers, by path
	// exclusive is cpuset.cpus.exclusive of these and of all groups above.
	exclusive map[string]cpuset.Set
	// obstacle is a group above the pods that is a partition itself, or "". The kernel then accepts
	// no partition below, and what the groups above have is left alone.
	obstacle string
}

// planPartitions returns the partitions of a plan: every container with exclusive CPUs, if that is
// configured.
func (c *Controller) planPartitions(s *node.State) partitions {
	p := partitions{kind: c.partition, roots: map[string]cpuset.Set{}, exclusive: map[string]cpuset.Set{}}
	for _, group := range s.View.AbovePods() {
		if s.View.Settings[group].Partition.Is() {
			p.obstacle = group
		}
	}
	failed := c.unpartitioned
	c.unpartitioned = map[string]unpartitioned{}
	if c.partition == "" || p.obstacle != "" {
		return p
	}
	for i := range s.Plan.Pods {
		for j := range s.Plan.Pods[i].Containers {
			container := &s.Plan.Pods[i].Containers[j]
			ref := nodeplan.Ref{Pod: s.Plan.Pods[i].ID, Container: container.Name}
			group := s.Groups.Containers[ref]
			if !container.Sole || !s.View.Exists(group) {
				continue
			}
			f, ok := failed[group]
			if !ok || f.cpus != container.CPUs {
				f = unpartitioned{ref: ref, cpus: container.CPUs}
			}
			c.unpartitioned[group] = f // until it is one
			if !s.Now.Before(f.again) {
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
func (p *partitions) release(s *node.State, w *Writes) {
	above := s.View.AbovePods()
	for group, present := range s.View.Settings {
		if p.obstacle != "" && slices.Contains(above, group) {
			continue
		}
		var wanted cgroup.Wanted
		exclusive := present.Exclusive.Intersection(p.exclusive[group])
		if present.Partition.Is() && !p.has(group, present) {
			wanted.Partition, exclusive = new(cgroup.PartitionMember), cpuset.Set{}
		}
		if exclusive != present.Exclusive {
			wanted.Exclusive = &exclusive
		}
		if wanted != (cgroup.Wanted{}) {
			w.Release[group] = wanted
		}
	}
}

// has reports whether a group is the partition that it is to be.
func (p *partitions) has(group string, present cgroup.Settings) bool {
	cpus, ok := p.roots[group]
	return ok && present.Partition == cgroup.PartitionState{Kind: p.kind} && present.CPUs == cpus && present.Exclusive == cpus
}

// make makes partitions, after their CPUs have changed hands.
func (p *partitions) make(s *node.State, w *Writes) {
	w.PartitionedCPUs = p.exclusive
	for group, cpus := range p.exclusive {
		if present, ok := s.View.Settings[group]; ok && !cpus.IsSubsetOf(present.Exclusive) {
			w.Partitions[group] = cgroup.Wanted{Exclusive: &cpus}
		}
	}
	for group, cpus := range p.roots {
		if !p.has(group, s.View.Settings[group]) {
			w.Partitions[group] = cgroup.Wanted{Exclusive: &cpus, Partition: &p.kind}
		}
	}
}

// Applied records which containers could not become partitions, by path.
func (c *Controller) Applied(now time.Time, refused map[string]error) {
	for group, f := range c.unpartitioned {
		if err := refused[group]; err != nil {
			f.err, f.pause = err, min(max(2*f.pause, firstPartitionPause), lastPartitionPause)
			f.again = now.Add(f.pause)
			c.unpartitioned[group] = f
		} else if !now.Before(f.again) {
			delete(c.unpartitioned, group) // it is one, or its CPUs could not be set
		}
	}
}

// partitionNotes returns the notes about containers that could not become partitions.
func (c *Controller) partitionNotes(s *node.State) (notes []node.Notice) {
	if c.partition == "" {
		return nil
	}
	for _, group := range s.View.AbovePods() {
		if s.View.Settings[group].Partition.Is() {
			return []node.Notice{{Reason: NotPartitioned, Message: fmt.Sprintf("no container can be a cpuset partition, because %s is one: "+
				"make that a member, or run the agent with --partition=none", group)}}
		}
	}
	for _, group := range slices.Sorted(maps.Keys(c.unpartitioned)) {
		f := c.unpartitioned[group]
		if f.err == nil {
			continue
		}
		notes = append(notes, s.Pods.NewNotice(f.ref.Pod, NotPartitioned, fmt.Sprintf("CPUs %s of container %q of pod %s are not a cpuset partition, "+
			"so processes outside of Kubernetes may run on them: %v", f.cpus, f.ref.Container, s.Pods.NameOf(f.ref.Pod), f.err)))
	}
	return notes
}
