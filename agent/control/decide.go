package control

import (
	"errors"
	"maps"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Actions are what is to be done.
type Actions struct {
	// Hold says why nothing is changed, "" when that is not so.
	Hold string
	// Widen, Moves, Narrow and Rest are the writes, in this order; see the package comment.
	Widen  map[string]cgroup.Wanted
	Moves  []Move
	Narrow map[string]Narrow
	Rest   map[string]cgroup.Wanted
	// Held is what the containers' groups hold before.
	Held map[string]Holding
	// Foreign are the changes by others that these writes undo, or that are left to them.
	Foreign []Foreign
}

// Empty reports whether there is nothing to write.
func (a Actions) Empty() bool { return len(a.Widen)+len(a.Moves)+len(a.Narrow)+len(a.Rest) == 0 }

// Move changes the CPUs of a container's group.
type Move struct {
	Path      string
	Pod       ledger.PodID
	CPUs      cpuset.Set
	Exclusive bool // to the pod, in the end
}

// Narrow removes CPUs from a pod's group after the groups in it have moved.
type Narrow struct {
	CPUs cpuset.Set
	// Below is what the groups in it hold, as far as they have CPUs of their own. Who cannot
	// be moved off some keeps them, and the pod does.
	Below map[string]cpuset.Set
}

// Holding is what a container's group holds.
type Holding struct {
	Pod       ledger.PodID
	CPUs      cpuset.Set
	Exclusive bool
}

// hold says why nothing can be decided yet.
func (c *Control) hold() string {
	switch {
	case c.index == nil:
		return "the machine's CPUs are not known"
	case c.kubelet == nil:
		return "the kubelet's configuration is not known"
	case !c.known:
		return "the pods of this node are not known: the API server has not been reached since the agent started"
	case c.view == nil:
		return "the control groups have not been read"
	}
	return ""
}

// Decide returns the actions that follow from the inputs.
func (c *Control) Decide(now time.Time) Actions {
	if hold := c.hold(); hold != "" {
		return Actions{Hold: hold}
	}
	c.forget(now)
	g := c.locate()
	if !c.restored {
		c.previous = c.coreSetsInForce(g)
	}
	c.adopt(g, now)
	state := c.state(g)
	d := nodeplan.Plan(state)
	c.now, c.previous, c.desired = now, d.CoreSets, newDesired(state, d)
	a := Actions{Widen: map[string]cgroup.Wanted{}, Rest: map[string]cgroup.Wanted{}}
	c.widen(&a, d, g)
	c.move(&a, d, g)
	c.narrow(&a, d, g)
	c.limited = c.limitedGroups(d, g)
	found := c.findForeignOwned(c.limited)
	c.bandwidth(&a, c.limited)
	c.rememberPlanned(c.limited)
	a.Foreign = append(c.undone(&a), found...)
	c.restored = true
	return a
}

// widen lets tiers and pods have every CPU that a container may get.
func (c *Control) widen(a *Actions, d nodeplan.Desired, g groups) {
	if len(d.Tiers) > 0 && !d.Tiers[0].CPUs.IsEmpty() {
		for _, path := range c.view.Tiers {
			if c.exists(path) && !d.Tiers[0].CPUs.IsSubsetOf(c.held(path)) {
				a.Widen[path] = cgroup.Wanted{CPUs: &d.Tiers[0].CPUs}
			}
		}
	}
	for _, want := range c.podsWanted(d, g) {
		if held := c.held(want.path); !want.cpus.IsSubsetOf(held) {
			cpus := held.Union(want.cpus)
			a.Widen[want.path] = cgroup.Wanted{CPUs: &cpus}
		}
	}
}

// podCPUs is what the group of a pod should have.
type podCPUs struct {
	path string
	cpus cpuset.Set
}

// podsWanted are the cpusets of pods' groups that exist. A pod that is not known has the
// shared CPUs; where nothing is bound all have all.
func (c *Control) podsWanted(d nodeplan.Desired, g groups) (all []podCPUs) {
	planned := make(map[ledger.PodID]cpuset.Set, len(d.Pods))
	for i := range d.Pods {
		planned[d.Pods[i].ID] = d.Pods[i].CPUs
	}
	for id, path := range g.pods {
		cpus, ok := planned[id]
		switch {
		case !c.bound():
			cpus = c.machine().Online()
		case !ok:
			cpus = d.Shared
		}
		if c.exists(path) && !cpus.IsEmpty() {
			all = append(all, podCPUs{path, cpus})
		}
	}
	return all
}

// narrow takes from pods' groups what they should not have. A container that the runtime
// creates without asking then has the CPUs of its pod's group, and no CPU of another pod.
func (c *Control) narrow(a *Actions, d nodeplan.Desired, g groups) {
	a.Narrow = map[string]Narrow{}
	for _, want := range c.podsWanted(d, g) {
		if !c.held(want.path).IsSubsetOf(want.cpus) {
			a.Narrow[want.path] = Narrow{want.cpus, map[string]cpuset.Set{}}
		}
	}
	for path, s := range c.view.Settings {
		if n, ok := a.Narrow[parent(path)]; ok && !s.CPUs.IsEmpty() {
			n.Below[path] = s.CPUs
		}
	}
}

// move orders the containers' new cpusets.
func (c *Control) move(a *Actions, d nodeplan.Desired, g groups) {
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

// Result is the outcome of actions.
type Result struct {
	Written []cgroup.Write
	// Failed says, by group, what did not go as it should.
	Failed map[string]error
	// done is what each group was given.
	done map[string][]cgroup.Wanted
}

// Applied records the outcome of the last decision.
func (c *Control) Applied(r Result) {
	if c.view == nil {
		return
	}
	c.problems = map[string]error{}
	c.charge(r)
	for path, err := range r.Failed {
		if errors.Is(err, cgroup.ErrGone) {
			delete(c.view.Settings, path)
			continue
		}
		c.problems[path] = err
	}
	for path, all := range r.done {
		for _, w := range all {
			if present, ok := c.view.Settings[path]; ok {
				c.view.Settings[path] = cgroup.Change{Path: path, Present: present, Wanted: w}.Target()
			}
		}
	}
	c.updateBudgets(c.now)
	c.changed = nil
	c.expected = maps.Clone(c.view.Settings)
	for path := range c.problems {
		delete(c.expected, path)
	}
}
