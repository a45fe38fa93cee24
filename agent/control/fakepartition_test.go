package control

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"syscall"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/linux/cgroup"
)

// The kernel's cpuset partitions, as far as they concern the agent (kernel/cgroup/cpuset.c). Where
// versions of Linux differ, the strictest rule counts.

// cpus returns the CPUs that a cgroup with the given settings may use.
func (k *fakeKernel) cpus(group string, s cgroup.Settings) cpuset.Set {
	above := k.node.machine().Online()
	if of, ok := k.groups[path.Dir(group)]; ok && k.v2 {
		above = k.cpus(path.Dir(group), of)
	}
	if isValid(s) {
		return s.CPUs.Intersection(k.node.machine().Online())
	}
	if parent := k.groups[path.Dir(group)]; !isValid(parent) {
		above = above.Difference(k.partitioned()).Difference(k.taken)
	}
	if own := s.CPUs.Intersection(above); !own.IsEmpty() {
		return own
	}
	return above
}

// takeOut takes CPUs offline. Version 1 removes them from all cgroups.
func (k *fakeKernel) takeOut(cpus cpuset.Set) {
	if k.v2 {
		k.validate()
		return
	}
	for path, s := range k.groups {
		s.CPUs = s.CPUs.Difference(cpus)
		k.groups[path] = s
	}
}

// partitioned returns the CPUs of all valid partitions.
func (k *fakeKernel) partitioned() (cpus cpuset.Set) {
	for _, s := range k.groups {
		if isValid(s) {
			cpus = cpus.Union(s.CPUs)
		}
	}
	return cpus
}

func isValid(s cgroup.Settings) bool { return s.Partition.Is() && s.Partition.Invalid == "" }

// siblings returns the other groups in the same group.
func (k *fakeKernel) siblings(group string) (paths []string) {
	for other := range k.groups {
		if other != group && path.Dir(other) == path.Dir(group) {
			paths = append(paths, other)
		}
	}
	return paths
}

// rejectsExclusive returns an error if the kernel rejects CPUs or exclusive CPUs of a group because
// of its siblings.
func (k *fakeKernel) rejectsExclusive(group string, s cgroup.Settings) error {
	for _, sibling := range k.siblings(group) {
		of := k.groups[sibling]
		if s.Exclusive.Intersects(of.Exclusive) {
			return fmt.Errorf("exclusive CPUs %s, and %s has %s: %w", s.Exclusive, sibling, of.Exclusive, syscall.EINVAL)
		}
		for _, pair := range [][2]cgroup.Settings{{s, of}, {of, s}} {
			if all := pair[0].CPUs; !all.IsEmpty() && all.IsSubsetOf(pair[1].Exclusive) {
				return fmt.Errorf("all CPUs %s of a group are exclusive to its sibling %s: %w", all, sibling, syscall.EINVAL)
			}
		}
	}
	return nil
}

// validate finds out which partitions are valid, after each write.
func (k *fakeKernel) validate() {
	for _, group := range slices.Sorted(maps.Keys(k.groups)) {
		if s := k.groups[group]; s.Partition.Is() {
			s.Partition.Invalid = k.whyInvalid(group, s)
			k.groups[group] = s
		}
	}
}

func (k *fakeKernel) whyInvalid(group string, s cgroup.Settings) string {
	switch {
	case k.faults[group] == "unpartition":
		return "partition config conflicts with housekeeping setup"
	case s.CPUs.IsEmpty() || s.Exclusive.IsEmpty():
		return "cpuset.cpus and cpuset.cpus.exclusive are empty"
	case !s.CPUs.Intersects(k.node.machine().Online()):
		return "No cpu available due to hotplug"
	}
	for above := path.Dir(group); above != "/"; above = path.Dir(above) {
		if of := k.groups[above]; of.Partition.Is() || !s.CPUs.IsSubsetOf(of.Exclusive) {
			return "Invalid cpu list in cpuset.cpus.exclusive"
		}
	}
	for _, sibling := range k.siblings(group) {
		if k.groups[sibling].CPUs.Intersects(s.CPUs) {
			return "Cpu list in cpuset.cpus not exclusive"
		}
	}
	return ""
}

// checkPartitions checks all partitions after a round in which nothing failed: every container that
// can be one is a valid one, and no other group is one or has exclusive CPUs.
func (k *fakeKernel) checkPartitions() {
	if !k.v2 || k.noPartition || len(k.node.control.failures) > 0 || k.node.control.hold() != "" {
		return
	}
	c := k.node.control
	for _, t := range qos.Tiers() {
		if k.groups[k.naming.Tier(t)].Partition.Is() {
			return // somebody else's
		}
	}
	roots, exclusive := map[string]bool{}, map[string]cpuset.Set{}
	for _, p := range c.round.Plan.Pods {
		for _, container := range p.Containers {
			group := c.round.Container[nodeplan.Ref{Pod: p.ID, Container: container.Name}]
			if !c.config.Partitioned() || !container.Sole || c.cpus.Lacks(group) || !c.round.Exists(group) {
				continue
			}
			roots[group] = true
			for above := group; above != "/"; above = path.Dir(above) {
				exclusive[above] = exclusive[above].Union(container.CPUs)
			}
		}
	}
	for group, s := range k.groups {
		is := cgroup.PartitionState{Kind: cgroup.PartitionMember}
		if roots[group] {
			is.Kind = c.config.Partition
		}
		if s.Partition != is || s.Exclusive != exclusive[group] {
			k.node.broken = append(k.node.broken, fmt.Sprintf("%s is %+v with exclusive CPUs %q, want %+v with %q",
				k.name(group), s.Partition, s.Exclusive, is, exclusive[group]))
		}
	}
}

// ThreadCPUs implements [Kernel].
func (k *fakeKernel) ThreadCPUs(group string) (cpuset.Set, error) {
	cpus := k.cpus(group, k.groups[group])
	affinity, has := k.affinity[group]
	if some := cpus.Intersection(affinity); !some.IsEmpty() || has && affinity.IsEmpty() {
		return some, nil
	}
	return cpus, nil
}
