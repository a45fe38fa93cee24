// Package cpus decides which CPUs the cgroups of pods and containers get, in which order these
// change hands, and which containers are cpuset partitions.
//
//	c.Input(round, &state)  // of a plan: the core sets in force
//	c.Decide(round, &writes)
//	c.Applied(round, &outcome)
//
// # Order
//
// Partitions that change are ended. Tiers and pods are widened, then containers move in the order
// of [nodeplan.Steps], then pods are narrowed, then bandwidth is written, then partitions are made.
// A container that could not be moved keeps its CPUs, and so does its pod. Those CPUs are not given
// to another container in the same round if either side needs them exclusively.
//
// While some pod asks, a pod's cgroup has the shared CPUs and the CPUs of its containers, and no
// others. Groups that the runtime creates in it without asking (sandboxes always, containers if the
// agent does not answer in time) inherit the CPUs of the pod's cgroup.
//
// # Partitions
//
// With --partition the cgroups of containers with exclusive CPUs are cpuset partitions, and the
// groups above have these CPUs as exclusive ones. Partitions that change are ended before anything
// else, and made after everything else. A container whose partition is not valid is a member again
// in the same round, and is tried again after a growing pause. Without that option, partitions that
// are found are ended, as long as some pod asks.
//
// # Core sets after a restart
//
// A core set is the CPUs that a static-burst container uses; see package nodeplan. The core sets in
// force are read from the containers' cgroups. No file stores them.
package cpus

import (
	"maps"
	"path"
	"slices"
	"time"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Controller is the state between rounds.
type Controller struct {
	groups.Idle
	partition cgroup.Partition // of containers with exclusive CPUs, "" for none
	// coreSets are those of the last plan.
	coreSets nodeplan.CoreSets
	// exclusive are the CPUs that the last plan gave each container's cgroup exclusively; the empty
	// set for containers on shared CPUs. The cgroup holds other CPUs if it could not be moved.
	exclusive map[string]cpuset.Set
	// before are the CPUs that cgroups had exclusively before the last plan. They still have them if
	// they could not be moved.
	before map[string]cpuset.Set
	// unpartitioned are the planned partitions that do not exist yet, by the container's path.
	unpartitioned map[string]unpartitioned
	threads       map[string]seen // by the container's path
	// missing are the containers that run without a cgroup, and since when.
	missing map[nodeplan.Ref]time.Time
}

// New returns a controller without any state. partition is what containers with exclusive CPUs
// become, "" for no partitions.
func New(partition cgroup.Partition) *Controller {
	return &Controller{partition: partition, exclusive: map[string]cpuset.Set{}, threads: map[string]seen{}}
}

// Exclusive returns the CPUs that the last plan gave to each container's cgroup exclusively.
func (c *Controller) Exclusive() map[string]cpuset.Set { return c.exclusive }

// Input adds the core sets in force.
func (c *Controller) Input(r *groups.Round, s *nodeplan.State) { s.Previous = c.inForce(r) }

// inForce returns the core sets in force. At the start they are read from the cgroups of
// static-burst containers. A cgroup with all CPUs was never given a core set.
func (c *Controller) inForce(r *groups.Round) nodeplan.CoreSets {
	if !r.First {
		return c.coreSets
	}
	sets := map[nodeplan.Ref]cpuset.Set{}
	for i := range r.Pods {
		pod := &r.Pods[i]
		for _, claim := range r.Claims[pod.Object.UID].Containers {
			ref := nodeplan.Ref{Pod: pod.Plan.ID, Container: claim.Name}
			present, ok := r.Settings[r.Container[ref]]
			if ok && claim.Policy == placement.StaticBurst && !present.CPUs.IsEmpty() && present.CPUs != r.Online {
				sets[ref] = present.CPUs
			}
		}
	}
	return nodeplan.CoreSets{Sets: sets}
}

// Decide adds the changes that the plan requires: those of Restore if it needs no cpusets.
func (c *Controller) Decide(r *groups.Round, w *groups.Writes) {
	c.coreSets = r.Plan.CoreSets
	if !r.BindsCPUs() {
		c.Restore(r, w)
		return
	}
	a := groups.Changes{Release: map[string]cgroup.Wanted{}, Widen: map[string]cgroup.Wanted{}, Partitions: map[string]cgroup.Wanted{}}
	p := c.planPartitions(r)
	p.release(r, &a)
	widen(r, &a)
	c.move(r, &a)
	narrow(r, &a)
	p.make(r, &a)
	for _, l := range unavailable(r) {
		a.Recheck = append(a.Recheck, l.Path)
	}
	for i := range r.Planned {
		l := &r.Planned[i]
		seen, ok := c.threads[l.Path]
		if !l.IsPod() && (!ok || seen.cpus.IsEmpty() || !c.exclusive[l.Path].IsEmpty() && seen.within != c.exclusive[l.Path]) {
			a.Look = append(a.Look, l.Path)
		}
	}
	w.Changes = a
}

// seen are the CPUs that the threads of a container were seen to run on, of those that it had: none if
// nothing has run in its cgroup.
type seen struct{ cpus, within cpuset.Set }

// Applied records which containers could not become partitions, and the CPUs of the threads that were
// looked at.
func (c *Controller) Applied(r *groups.Round, o *groups.Outcome) {
	c.partitioned(r.Now, o.Unpartitioned)
	for path, cpus := range o.Threads {
		c.threads[path] = seen{cpus, r.Held(path)}
	}
	maps.DeleteFunc(c.threads, func(path string, _ seen) bool { return !r.Exists(path) })
}

// endedWithin is the time in which the status of a pod says that a container has ended.
const endedWithin = 10 * time.Second

// Elsewhere returns the containers with CPUs of their own that run, as their pods say, and not in cgroups
// of their own: sandboxed runtimes run them in the pod's (gVisor) or the sandbox's (Kata).
func (c *Controller) Elsewhere(r *groups.Round) (all []nodeplan.Ref) {
	missing := map[nodeplan.Ref]time.Time{}
	for i := range r.Plan.Pods {
		p := &r.Plan.Pods[i]
		for j := range p.Containers {
			ref := nodeplan.Ref{Pod: p.ID, Container: p.Containers[j].Name}
			if p.Containers[j].Home != nodeplan.HomeExclusive || r.Pods[i].IDs[ref.Container] == "" {
				continue
			}
			path := r.Container[ref]
			seen, looked := c.threads[path]
			switch {
			case !r.Exists(path) && !r.HasOther(p.ID):
				since, before := c.missing[ref]
				if missing[ref] = since; !before {
					missing[ref] = r.Now
				}
				if r.Now.Sub(missing[ref]) >= endedWithin {
					all = append(all, ref)
				}
			case looked && seen.cpus.IsEmpty():
				all = append(all, ref)
			}
		}
	}
	c.missing = missing
	return all
}

// Restore adds the changes that give all CPUs to every cgroup, including those of unknown
// containers.
func (c *Controller) Restore(r *groups.Round, w *groups.Writes) {
	a := groups.Changes{Release: map[string]cgroup.Wanted{}, Widen: map[string]cgroup.Wanted{}, Held: map[string]groups.Holding{}}
	p := c.planPartitions(r) // none: the kubelet gives no container CPUs of its own
	p.release(r, &a)
	widen(r, &a)
	if r.Binds {
		unbind(r, &a)
	}
	c.exclusive = map[string]cpuset.Set{}
	w.Changes = a
}

// widen gives pods every CPU that their containers will get, and tiers those that they had before
// they were offline.
func widen(r *groups.Round, a *groups.Changes) {
	for i, path := range r.Tiers { // on version 2 they inherit what comes online again
		cpus := r.Allowed[qos.Tiers()[i]]
		if r.Layout.CPUSet == cgroup.V1 && r.Exists(path) && !cpus.IsSubsetOf(r.Held(path)) {
			a.Widen[path] = cgroup.Wanted{CPUs: &cpus}
		}
	}
	for path, cpus := range podCPUs(r) {
		if held := r.Held(path); !cpus.IsSubsetOf(held) {
			cpus := held.Union(cpus)
			a.Widen[path] = cgroup.Wanted{CPUs: &cpus}
		}
	}
}

// narrow removes the other CPUs from the pods' cgroups. A container that the runtime creates
// without asking then gets the CPUs of its pod, and no CPU of another pod.
func narrow(r *groups.Round, a *groups.Changes) {
	a.Narrow = map[string]groups.Narrow{}
	for path, cpus := range podCPUs(r) {
		if !r.Held(path).IsSubsetOf(cpus) {
			a.Narrow[path] = groups.Narrow{CPUs: cpus, Children: map[string]cpuset.Set{}}
		}
	}
	for child, s := range r.Settings {
		if n, ok := a.Narrow[path.Dir(child)]; ok && !s.CPUs.IsEmpty() {
			n.Children[child] = s.CPUs
		}
	}
}

// move orders the changes of the containers' cpusets.
func (c *Controller) move(r *groups.Round, a *groups.Changes) {
	to := assignments(r)
	from := c.assignmentsNow(r, to)
	a.Held, c.before = make(map[string]groups.Holding, len(from)), map[string]cpuset.Set{}
	for _, f := range from {
		path := r.Container[f.Ref]
		if a.Held[path] = (groups.Holding{Pod: f.Ref.Pod, CPUs: f.CPUs, Exclusive: f.Exclusive}); f.Exclusive {
			c.before[path] = f.CPUs
		}
	}
	c.exclusive = make(map[string]cpuset.Set, len(to))
	for _, t := range to {
		var own cpuset.Set
		if t.Exclusive {
			own = t.CPUs
		}
		c.exclusive[r.Container[t.Ref]] = own
	}
	for _, step := range nodeplan.Steps(from, to, r.Plan.Shared) {
		path := r.Container[step.Ref]
		a.Moves = append(a.Moves, groups.Move{Path: path, Pod: step.Ref.Pod, CPUs: step.CPUs, Exclusive: !c.exclusive[path].IsEmpty()})
	}
}

// unbind gives every container all CPUs. On version 2 that is an empty cpuset, which the kubelet
// leaves empty, too.
func unbind(r *groups.Round, a *groups.Changes) {
	if r.Layout.CPUSet == cgroup.V2 {
		for _, path := range slices.AppendSeq(slices.Collect(maps.Values(r.Container)), maps.Values(r.Pod)) {
			if !r.Settings[path].CPUs.IsEmpty() {
				a.Widen[path] = cgroup.Wanted{CPUs: &cpuset.Set{}}
			}
		}
		return
	}
	for _, path := range slices.Sorted(maps.Values(r.Container)) {
		if all := r.Within(path, r.Online); r.Exists(path) && r.Held(path) != all {
			a.Moves = append(a.Moves, groups.Move{Path: path, CPUs: all})
		}
	}
}

// Create returns the CPUs with which a container is to be created, and whether they are the planned
// ones. An unknown container, and one whose own CPUs are not free yet, gets the shared CPUs. The set
// is empty if no cpuset is to be set.
func (c *Controller) Create(r *groups.Round, pod ledger.PodID, container *nodeplan.ContainerSettings) (cpus cpuset.Set, planned bool) {
	if !r.BindsCPUs() {
		return cpuset.Set{}, container != nil
	}
	if container != nil {
		cpus = c.free(r, pod, container.CPUs, container.Home == nodeplan.HomeExclusive)
		if !cpus.IsEmpty() || container.CPUs.IsEmpty() {
			return cpus, true
		}
	}
	return c.free(r, pod, r.Plan.Shared, false), false
}

// free returns cpus without those that a container of another pod still holds, if that container or
// the new one (exclusive) is to have its CPUs exclusively. It returns the empty set if the pod's
// cgroup does not have all of cpus: the runtime then gives the container the CPUs of the pod.
func (c *Controller) free(r *groups.Round, pod ledger.PodID, cpus cpuset.Set, exclusive bool) cpuset.Set {
	podGroup := r.Pod[pod]
	cpus = r.Within(podGroup, cpus)
	for _, p := range r.View.Pods {
		if ledger.PodID(p.UID) == pod {
			continue
		}
		for _, container := range p.Containers {
			if r.Exists(container.Path) && (exclusive || !c.exclusive[container.Path].IsEmpty()) {
				cpus = cpus.Difference(r.Held(container.Path))
			}
		}
	}
	if r.Exists(podGroup) && !cpus.IsSubsetOf(r.Held(podGroup)) {
		return cpuset.Set{}
	}
	return cpus
}

// unavailable returns the containers that do not run on all of their CPUs.
func unavailable(r *groups.Round) (all []*groups.Planned) {
	for i := range r.Planned {
		l := &r.Planned[i]
		if s := r.Settings[l.Path]; r.Binds && !l.IsPod() && !s.CPUs.IsEmpty() && !s.Effective.IsEmpty() && s.Effective != s.CPUs {
			all = append(all, l)
		}
	}
	return all
}
