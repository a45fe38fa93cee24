// Package cpus decides which cgroups get which CPUs, in which order they change hands, and which
// cgroups are cpuset partitions.
//
//	writes := c.Decide(state)
//	c.Applied(now, failed)
//
// Its state is which CPUs are exclusive in force, and which partitions the kernel has refused.
package cpus

import (
	"maps"
	"path"
	"slices"

	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Controller decides about CPUs. Its methods must not be called concurrently.
type Controller struct {
	// partition is the kind of partition that containers with exclusive CPUs become, or "".
	partition cgroup.Partition
	// exclusive are the CPUs that the last plan gave each container's cgroup exclusively; the empty
	// set for containers on shared CPUs. The cgroup holds other CPUs if it could not be moved.
	exclusive map[string]cpuset.Set
	// unpartitioned are the planned partitions that do not exist yet, by the container's path.
	unpartitioned map[string]unpartitioned
}

// New returns a controller. Containers with exclusive CPUs become partitions of the given kind, or
// none with "" and cgroup.PartitionMember.
func New(partition cgroup.Partition) *Controller {
	if partition == cgroup.PartitionMember {
		partition = ""
	}
	return &Controller{partition: partition, exclusive: map[string]cpuset.Set{}}
}

// Writes are changes of CPUs. They must be carried out in the order of the fields; quotas change
// between Narrow and Partitions. The keys are paths.
type Writes struct {
	Release    map[string]cgroup.Wanted // partitions that end
	Widen      map[string]cgroup.Wanted
	Moves      []Move
	Narrow     map[string]Narrow
	Partitions map[string]cgroup.Wanted
	// PartitionedCPUs is cpuset.cpus.exclusive with all partitions.
	PartitionedCPUs map[string]cpuset.Set
	// Held are the CPUs of the containers' cgroups before the writes.
	Held map[string]Holding
	// Recheck are the paths of the containers that did not run on all of their CPUs before the writes.
	Recheck []string
}

func newWrites() Writes {
	return Writes{Release: map[string]cgroup.Wanted{}, Widen: map[string]cgroup.Wanted{}, Partitions: map[string]cgroup.Wanted{},
		Held: map[string]Holding{}}
}

// Move changes the CPUs of a container's cgroup.
type Move struct {
	Path      string
	Pod       ledger.PodID
	CPUs      cpuset.Set
	Exclusive bool // whether the container ends up with exclusive CPUs
}

// Narrow removes CPUs from a pod's cgroup after its children have moved.
type Narrow struct {
	CPUs cpuset.Set
	// Children are the CPUs of the children that have CPUs of their own. The pod keeps the CPUs of
	// children that could not be moved.
	Children map[string]cpuset.Set
}

// Holding is the CPUs of a container's cgroup.
type Holding struct {
	Pod       ledger.PodID
	CPUs      cpuset.Set
	Exclusive bool
}

// Decide returns the changes that follow from a plan.
func (c *Controller) Decide(s *node.State) Writes {
	w := newWrites()
	p := c.planPartitions(s)
	p.release(s, &w)
	w.widen(s)
	c.move(&w, s)
	w.narrow(s)
	p.make(s, &w)
	for _, l := range unavailable(s) {
		w.Recheck = append(w.Recheck, l.Path)
	}
	return w
}

// Restore returns the changes that restore the settings of the kubelet with the CPU manager policy
// none: all CPUs for every cgroup, including those of unknown containers. s.Plan is the kubelet's.
func (c *Controller) Restore(s *node.State) Writes {
	w := newWrites()
	p := c.planPartitions(s) // none: the kubelet gives no container CPUs of its own
	p.release(s, &w)
	w.widen(s)
	if s.Binds {
		w.unbind(s)
	}
	c.exclusive = map[string]cpuset.Set{}
	return w
}

// Exclusive returns the CPUs that the last decision gave each container's cgroup exclusively, by
// path; the empty set for containers on shared CPUs.
func (c *Controller) Exclusive() map[string]cpuset.Set { return c.exclusive }

// ForNew returns the CPUs with which a container is to be created, or the empty set for those of its
// pod's cgroup. planned are its planned settings, nil of an unknown pod. own is false if the
// container gets shared CPUs until its own are free.
func (c *Controller) ForNew(s *node.State, pod ledger.PodID, planned *nodeplan.ContainerSettings) (cpus cpuset.Set, own bool) {
	switch {
	case planned != nil:
		cpus = c.free(s, pod, planned.CPUs, planned.Home == nodeplan.HomeExclusive)
		if !cpus.IsEmpty() || planned.CPUs.IsEmpty() {
			return cpus, true
		}
	case !s.Binds:
		return cpuset.Set{}, false
	}
	return c.free(s, pod, s.Plan.Shared, false), false
}

// widen gives tiers and pods every CPU that their containers will get.
func (w *Writes) widen(s *node.State) {
	if len(s.Plan.Tiers) > 0 && !s.Plan.Tiers[0].CPUs.IsEmpty() {
		for _, path := range s.View.Tiers {
			if s.View.Exists(path) && !s.Plan.Tiers[0].CPUs.IsSubsetOf(s.Held(path)) {
				w.Widen[path] = cgroup.Wanted{CPUs: &s.Plan.Tiers[0].CPUs}
			}
		}
	}
	for path, cpus := range podCPUs(s) {
		if held := s.Held(path); !cpus.IsSubsetOf(held) {
			cpus := held.Union(cpus)
			w.Widen[path] = cgroup.Wanted{CPUs: &cpus}
		}
	}
}

// podCPUs returns the planned cpusets of the pods' cgroups that exist, by path. Unknown pods get
// the shared CPUs. If the agent does not bind CPUs, every pod gets all of them.
func podCPUs(s *node.State) map[string]cpuset.Set {
	planned := make(map[ledger.PodID]cpuset.Set, len(s.Plan.Pods))
	for i := range s.Plan.Pods {
		planned[s.Plan.Pods[i].ID] = s.Plan.Pods[i].CPUs
	}
	all := make(map[string]cpuset.Set, len(s.Groups.Pods))
	for id, path := range s.Groups.Pods {
		cpus, ok := planned[id]
		switch {
		case !s.Binds:
			cpus = s.Machine.Online()
		case !ok:
			cpus = s.Plan.Shared
		}
		if s.View.Exists(path) && !cpus.IsEmpty() {
			all[path] = cpus
		}
	}
	return all
}

// narrow removes the other CPUs from the pods' cgroups. A container that the runtime creates
// without asking then gets the CPUs of its pod, and no CPU of another pod.
func (w *Writes) narrow(s *node.State) {
	w.Narrow = map[string]Narrow{}
	for path, cpus := range podCPUs(s) {
		if !s.Held(path).IsSubsetOf(cpus) {
			w.Narrow[path] = Narrow{cpus, map[string]cpuset.Set{}}
		}
	}
	for child, present := range s.View.Settings {
		if n, ok := w.Narrow[path.Dir(child)]; ok && !present.CPUs.IsEmpty() {
			n.Children[child] = present.CPUs
		}
	}
}

// move orders the changes of the containers' cpusets.
func (c *Controller) move(w *Writes, s *node.State) {
	to := assignmentsWanted(s)
	from := c.assignmentsNow(to, s)
	w.Held = make(map[string]Holding, len(from))
	for _, f := range from {
		w.Held[s.Groups.Containers[f.Ref]] = Holding{f.Ref.Pod, f.CPUs, f.Exclusive}
	}
	c.exclusive = make(map[string]cpuset.Set, len(to))
	for _, t := range to {
		var own cpuset.Set
		if t.Exclusive {
			own = t.CPUs
		}
		c.exclusive[s.Groups.Containers[t.Ref]] = own
	}
	for _, step := range nodeplan.Steps(from, to) {
		path := s.Groups.Containers[step.Ref]
		w.Moves = append(w.Moves, Move{path, step.Ref.Pod, step.CPUs, !c.exclusive[path].IsEmpty()})
	}
}

// unbind gives every container all CPUs. On version 2 that is an empty cpuset, which the kubelet
// leaves empty, too.
func (w *Writes) unbind(s *node.State) {
	online := s.Machine.Online()
	if s.View.Layout.CPUSet == cgroup.V2 {
		for _, path := range slices.AppendSeq(slices.Collect(maps.Values(s.Groups.Containers)), maps.Values(s.Groups.Pods)) {
			if !s.View.Settings[path].CPUs.IsEmpty() {
				w.Widen[path] = cgroup.Wanted{CPUs: &cpuset.Set{}}
			}
		}
		return
	}
	for _, path := range slices.Sorted(maps.Values(s.Groups.Containers)) {
		if s.View.Exists(path) && s.Held(path) != online {
			w.Moves = append(w.Moves, Move{Path: path, CPUs: online})
		}
	}
}

// free returns cpus without those that a container of another pod still holds, if that container or
// the new one (exclusive) is to have its CPUs exclusively. It returns the empty set if the pod's
// cgroup does not have all of cpus: the runtime then gives the container the CPUs of the pod.
func (c *Controller) free(s *node.State, pod ledger.PodID, cpus cpuset.Set, exclusive bool) cpuset.Set {
	var podGroup string
	for _, p := range s.View.Pods {
		if ledger.PodID(p.UID) == pod {
			podGroup = p.Path
			continue
		}
		for _, container := range p.Containers {
			if s.View.Exists(container.Path) && (exclusive || !c.exclusive[container.Path].IsEmpty()) {
				cpus = cpus.Difference(s.Held(container.Path))
			}
		}
	}
	if s.View.Exists(podGroup) && !cpus.IsSubsetOf(s.Held(podGroup)) {
		return cpuset.Set{}
	}
	return cpus
}
