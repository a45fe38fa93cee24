package control

import (
	"maps"
	"path"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Decision is the writes that follow from the inputs. [Decision.Execute] carries them out. What
// else follows is in the [Status], which depends on which writes the kernel accepts.
type Decision struct {
	// Hold is the reason why nothing is changed, or "".
	Hold string
	// Release, Widen, Moves, Narrow, Bandwidth and Partitions are the writes, in this order; see the
	// package comment. The keys are paths.
	Release    map[string]cgroup.Wanted // partitions that end
	Widen      map[string]cgroup.Wanted
	Moves      []Move
	Narrow     map[string]Narrow
	Bandwidth  map[string]cgroup.Wanted // quota, period, burst, cpu.idle and cpu.bvt_warp_ns
	Partitions map[string]cgroup.Wanted
	exclusive  map[string]cpuset.Set // cpuset.cpus.exclusive with all partitions
	// Held are the CPUs of the containers' cgroups before the writes.
	Held map[string]Holding
	// Foreign are the changes by other writers that these writes undo or leave in force.
	Foreign []Foreign
	// Raised are the paths of the containers whose quota is raised, for less than a second.
	Raised []string
	// recheck are the paths of the containers that did not run on all of their CPUs before the writes.
	recheck []string
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

func newDecision() Decision {
	return Decision{Release: map[string]cgroup.Wanted{}, Widen: map[string]cgroup.Wanted{}, Bandwidth: map[string]cgroup.Wanted{},
		Partitions: map[string]cgroup.Wanted{}, Held: map[string]Holding{}}
}

// hold returns the reason why nothing can be decided yet, or "".
func (c *Control) hold() string {
	switch {
	case c.index == nil:
		return "the machine's CPUs are not known"
	case c.kubelet == nil && c.strangeKubelet:
		return "the kubelet's configuration is not known: what answers at its port may be another program, and is not asked; " +
			"the agent's log says why, and --kubelet-ca names the CA of its certificate"
	case c.kubelet == nil:
		return "the kubelet's configuration is not known"
	case !c.podsListed:
		return "the pods of this node are not known: the API server has not been reached since the agent started"
	case c.view == nil:
		return "the control groups have not been read"
	}
	return ""
}

// Decide returns the decision that follows from the inputs.
func (c *Control) Decide(now time.Time) Decision {
	if hold := c.hold(); hold != "" {
		return Decision{Hold: hold}
	}
	c.forgetCreated(now)
	g := c.locate()
	if !c.recovered {
		c.previous = c.coreSetsInForce(g)
	}
	c.adopt(g, now)
	state := c.state(g, c.adoptedAnnotations)
	d := nodeplan.Plan(state)
	c.now, c.previous, c.plan = now, d.CoreSets, newPlan(state, d)
	c.coreSets = g.withCoreSets(d.CoreSets)
	a := newDecision()
	p := c.planPartitions(d, g, now)
	p.release(c, &a)
	c.widen(&a, d, g)
	c.move(&a, d, g)
	c.narrow(&a, d, g)
	p.make(c, &a)
	c.limited = c.limitedGroups(d, g)
	left := c.leaveForeign(c.limited)
	c.setBandwidth(&a, c.limited)
	if c.setsBatchQuota(d) {
		c.setBatchQuota(&a, d)
	}
	c.rememberPlanned(c.limited)
	a.Foreign = append(c.undone(&a), left...)
	a.Raised = slices.Collect(maps.Keys(c.raised))
	for _, l := range c.unavailable() {
		a.recheck = append(a.recheck, l.Path)
	}
	c.recovered = true
	return a
}

// Restore returns the decision that restores the settings of the kubelet with the CPU manager
// policy none: all CPUs for every cgroup, including those of unknown containers, and every limit as
// a quota.
func (c *Control) Restore() Decision {
	if hold := c.hold(); hold != "" {
		return Decision{Hold: hold}
	}
	g := c.locate()
	state := c.state(g, c.adoptedAnnotations)
	d := nodeplan.Kubelet(state)
	c.plan = newPlan(state, d)
	a := newDecision()
	p := c.planPartitions(d, g, c.now) // none: the kubelet gives no container CPUs of its own
	p.release(c, &a)
	c.widen(&a, d, g)
	if c.binds() {
		c.unbind(&a, g)
	}
	c.exclusive = map[string]cpuset.Set{}
	clear(c.foreignOwned)
	c.setBandwidth(&a, c.limitedGroups(d, g))
	c.setBatchQuota(&a, d)
	return a
}

// widen gives tiers and pods every CPU that their containers will get.
func (c *Control) widen(a *Decision, d nodeplan.Desired, g groups) {
	if len(d.Tiers) > 0 && !d.Tiers[0].CPUs.IsEmpty() {
		for _, path := range c.view.Tiers {
			if c.exists(path) && !d.Tiers[0].CPUs.IsSubsetOf(c.held(path)) {
				a.Widen[path] = cgroup.Wanted{CPUs: &d.Tiers[0].CPUs}
			}
		}
	}
	for path, cpus := range c.podCPUs(d, g) {
		if held := c.held(path); !cpus.IsSubsetOf(held) {
			cpus := held.Union(cpus)
			a.Widen[path] = cgroup.Wanted{CPUs: &cpus}
		}
	}
}

// podCPUs returns the planned cpusets of the pods' cgroups that exist, by path. Unknown pods get
// the shared CPUs. If the agent does not bind CPUs, every pod gets all of them.
func (c *Control) podCPUs(d nodeplan.Desired, g groups) map[string]cpuset.Set {
	planned := make(map[ledger.PodID]cpuset.Set, len(d.Pods))
	for i := range d.Pods {
		planned[d.Pods[i].ID] = d.Pods[i].CPUs
	}
	all := make(map[string]cpuset.Set, len(g.pods))
	for id, path := range g.pods {
		cpus, ok := planned[id]
		switch {
		case !c.binds():
			cpus = c.machine().Online()
		case !ok:
			cpus = d.Shared
		}
		if c.exists(path) && !cpus.IsEmpty() {
			all[path] = cpus
		}
	}
	return all
}

// narrow removes the other CPUs from the pods' cgroups. A container that the runtime creates
// without asking then gets the CPUs of its pod, and no CPU of another pod.
func (c *Control) narrow(a *Decision, d nodeplan.Desired, g groups) {
	a.Narrow = map[string]Narrow{}
	for path, cpus := range c.podCPUs(d, g) {
		if !c.held(path).IsSubsetOf(cpus) {
			a.Narrow[path] = Narrow{cpus, map[string]cpuset.Set{}}
		}
	}
	for child, s := range c.view.Settings {
		if n, ok := a.Narrow[path.Dir(child)]; ok && !s.CPUs.IsEmpty() {
			n.Children[child] = s.CPUs
		}
	}
}

// move orders the changes of the containers' cpusets.
func (c *Control) move(a *Decision, d nodeplan.Desired, g groups) {
	to := c.assignmentsWanted(d, g)
	from := c.assignmentsNow(to, g)
	a.Held = make(map[string]Holding, len(from))
	for _, f := range from {
		a.Held[g.containers[f.Ref]] = Holding{f.Ref.Pod, f.CPUs, f.Exclusive}
	}
	c.exclusive = make(map[string]cpuset.Set, len(to))
	for _, t := range to {
		var own cpuset.Set
		if t.Exclusive {
			own = t.CPUs
		}
		c.exclusive[g.containers[t.Ref]] = own
	}
	for _, step := range nodeplan.Steps(from, to) {
		path := g.containers[step.Ref]
		a.Moves = append(a.Moves, Move{path, step.Ref.Pod, step.CPUs, !c.exclusive[path].IsEmpty()})
	}
}

// unbind gives every container all CPUs. On version 2 that is an empty cpuset, which the kubelet
// leaves empty, too.
func (c *Control) unbind(a *Decision, g groups) {
	online := c.machine().Online()
	if c.view.Layout.CPUSet == cgroup.V2 {
		for _, path := range slices.AppendSeq(slices.Collect(maps.Values(g.containers)), maps.Values(g.pods)) {
			if !c.view.Settings[path].CPUs.IsEmpty() {
				a.Widen[path] = cgroup.Wanted{CPUs: &cpuset.Set{}}
			}
		}
		return
	}
	for _, path := range slices.Sorted(maps.Values(g.containers)) {
		if c.exists(path) && c.held(path) != online {
			a.Moves = append(a.Moves, Move{Path: path, CPUs: online})
		}
	}
}
