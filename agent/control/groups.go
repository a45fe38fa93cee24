package control

import (
	"maps"
	"path"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// strangerMark begins the name in [nodeplan.Ref] of a group of no known container. No
// container's name has this character.
const strangerMark = "#"

// forgetAfter is how long a container that the runtime announced may have neither a
// group nor a status: its creation failed.
const forgetAfter = 30 * time.Second

// groups says where pods and containers are in the tree.
type groups struct {
	pods       map[ledger.PodID]string
	containers map[nodeplan.Ref]string
	strangers  []nodeplan.Ref // of no known container; in containers, too
	others     []nodeplan.Ref // of names that are no container's; in containers, too
}

// locate finds the groups of all pods and containers.
func (c *Control) locate() groups {
	g := groups{map[ledger.PodID]string{}, map[nodeplan.Ref]string{}, nil, nil}
	names := map[ledger.PodID]map[string]string{} // of containers, by id
	for i := range c.pods {
		s := &c.pods[i]
		names[s.plan.ID] = map[string]string{}
		for j := range s.plan.Containers {
			name := s.plan.Containers[j].Name
			if id := c.idOf(s, name); id != "" {
				names[s.plan.ID][id] = name
			}
		}
	}
	for _, pod := range c.view.Pods {
		id := ledger.PodID(pod.UID)
		g.pods[id] = pod.Path
		for _, container := range pod.Containers {
			ref := nodeplan.Ref{Pod: id, Container: names[id][container.ID]}
			if ref.Container == "" {
				ref.Container = strangerMark + container.ID
				g.strangers = append(g.strangers, ref)
			}
			g.containers[ref] = container.Path
		}
		for _, other := range pod.Others {
			ref := nodeplan.Ref{Pod: id, Container: strangerMark + path.Base(other)}
			g.others = append(g.others, ref)
			g.containers[ref] = other
		}
	}
	return g
}

// Known returns a function that reports whether an id is that of a known container. For other
// groups only the CPUs need to be observed.
func (c *Control) Known() func(id string) bool {
	ids := map[string]bool{}
	for _, made := range c.runtime {
		ids[made.id] = true
	}
	for i := range c.pods {
		for _, id := range c.pods[i].ids {
			ids[id] = true
		}
	}
	return func(id string) bool { return ids[id] }
}

// idOf is the id of a container, "" when there is none. The runtime knows first.
func (c *Control) idOf(s *podState, name string) string {
	if made, ok := c.runtime[nodeplan.Ref{Pod: s.plan.ID, Container: name}]; ok {
		return made.id
	}
	return s.ids[name]
}

// forget drops what the runtime told once the statuses say it, and what came to
// nothing.
func (c *Control) forget(now time.Time) {
	exist := map[string]bool{}
	for _, pod := range c.view.Pods {
		for _, container := range pod.Containers {
			exist[container.ID] = true
		}
	}
	for ref, made := range c.runtime {
		s := c.pod(ref.Pod)
		told := s != nil && s.ids[ref.Container] == made.id
		if told || now.Sub(made.at) > forgetAfter && !exist[made.id] {
			delete(c.runtime, ref)
		}
	}
}

// state is what the plan depends on, with the words that were adopted.
func (c *Control) state(g groups) nodeplan.State {
	return c.stateOf(g, func(s *podState) words {
		if a := c.adopted[s.plan.ID]; a != nil {
			return a.words
		}
		return s.words
	})
}

func (c *Control) stateOf(g groups, say func(*podState) words) nodeplan.State {
	s := nodeplan.State{
		Index:         c.index,
		Config:        ledger.Config{Reserved: c.node.Reserved, ReservedCPUs: c.kubelet.ReservedCPUs, MinShared: c.config.MinShared},
		BindingOff:    bindingOff(c.kubelet.CPUManagerPolicy),
		Kubelet:       c.kubelet.Quota,
		Usage:         c.usage,
		Previous:      c.previous,
		Tuning:        c.config.Tuning,
		BatchIdle:     c.config.BatchIdle,
		NoKernelBurst: c.noBurst,
	}
	for i := range c.pods {
		pod, says := c.pods[i].plan, say(&c.pods[i])
		pod.Class, pod.Period, pod.Burst = says.class, says.period, says.burst
		if !says.asks && c.pods[i].words.asks {
			pod.Claim.Containers, pod.Claim.SharedRequest = nil, api.EffectiveRequest(c.pods[i].object)
		}
		pod.Containers = append([]nodeplan.Container(nil), pod.Containers...)
		for j := range pod.Containers {
			container := &pod.Containers[j]
			ref := nodeplan.Ref{Pod: pod.ID, Container: container.Name}
			container.Used = c.used[ref]
			container.Raised = c.quotaDecided(g.containers[ref])
			if _, ok := c.runtime[ref]; ok {
				container.Phase = nodeplan.Running
			}
		}
		s.Pods = append(s.Pods, pod)
	}
	return s
}

// bindingOff says why CPUs must not be bound under a CPU manager policy, "" when they
// may.
func bindingOff(policy string) string {
	if policy == "none" {
		return ""
	}
	return "the kubelet's cpuManagerPolicy is " + policy + ", so the kubelet binds containers itself: " +
		"set it to none, delete cpu_manager_state in the kubelet's directory and restart the kubelet"
}

// coreSetsInForce reads the core sets of before from the groups of static-burst
// containers. A group that has all CPUs was never given a set.
func (c *Control) coreSetsInForce(g groups) nodeplan.CoreSets {
	sets := map[nodeplan.Ref]cpuset.Set{}
	online := c.machine().Online()
	for i := range c.pods {
		plan := &c.pods[i].plan
		for _, claim := range plan.Claim.Containers {
			ref := nodeplan.Ref{Pod: plan.ID, Container: claim.Name}
			present, ok := c.view.Settings[g.containers[ref]]
			if ok && claim.Policy == placement.StaticBurst && !present.CPUs.IsEmpty() && present.CPUs != online {
				sets[ref] = present.CPUs
			}
		}
	}
	return nodeplan.CoreSets{Sets: sets}
}

// assignmentsNow are the cpusets in force of containers that are to have others or
// the same.
func (c *Control) assignmentsNow(to []nodeplan.Assignment, g groups) []nodeplan.Assignment {
	var from []nodeplan.Assignment
	for _, a := range to {
		path := g.containers[a.Ref]
		own, before := c.exclusive[path]
		if !before && a.Exclusive { // not by this agent
			own = a.CPUs
		}
		held := c.held(path) // who holds others than its own does not have them alone
		from = append(from, nodeplan.Assignment{Ref: a.Ref, CPUs: held, Exclusive: !own.IsEmpty() && held.IsSubsetOf(own)})
	}
	return from
}

// held is what a group's threads may run on.
func (c *Control) held(path string) cpuset.Set {
	if cpus := c.view.Settings[path].CPUs; !cpus.IsEmpty() {
		return cpus
	}
	above := parent(path)
	if _, ok := c.view.Settings[above]; ok && c.view.Layout.CPUSet == cgroup.V2 {
		return c.held(above)
	}
	return c.machine().Online() // version 2: those of a group above that is never narrower
}

func parent(group string) string { return path.Dir(group) }

// assignmentsWanted are those of the plan for groups that exist; strangers live in
// the shared CPUs.
func (c *Control) assignmentsWanted(d nodeplan.Desired, g groups) []nodeplan.Assignment {
	var to []nodeplan.Assignment
	for _, a := range d.Assignments() {
		if c.exists(g.containers[a.Ref]) {
			to = append(to, a)
		}
	}
	for _, ref := range g.strangers {
		if c.exists(g.containers[ref]) && !d.Shared.IsEmpty() && c.bound() {
			to = append(to, nodeplan.Assignment{Ref: ref, CPUs: d.Shared})
		}
	}
	for _, ref := range g.others {
		if a := c.housed(ref, d, g); c.exists(g.containers[ref]) && !a.CPUs.IsEmpty() && c.bound() {
			to = append(to, a)
		}
	}
	return to
}

// housed are the CPUs of a group whose name is no container's. Containers that run and have
// no group of their own, as those in a virtual machine, run in it; without such it is a
// helper and lives in the shared CPUs.
func (c *Control) housed(other nodeplan.Ref, d nodeplan.Desired, g groups) nodeplan.Assignment {
	a := nodeplan.Assignment{Ref: other, Exclusive: true}
	for _, of := range d.Assignments() {
		if of.Ref.Pod == other.Pod && !c.exists(g.containers[of.Ref]) {
			a.CPUs = a.CPUs.Union(of.CPUs)
			a.Exclusive = a.Exclusive && of.Exclusive
		}
	}
	if a.CPUs.IsEmpty() {
		a.CPUs, a.Exclusive = d.Shared, false
	}
	return a
}

func (c *Control) bound() bool { return bindingOff(c.kubelet.CPUManagerPolicy) == "" }

func (c *Control) exists(path string) bool {
	_, ok := c.view.Settings[path]
	return path != "" && ok
}

// Observe sets the present settings of the cgroups.
func (c *Control) Observe(v View) {
	c.view, c.changed = &v, nil
	maps.DeleteFunc(c.writes, func(path string, _ int) bool { return !c.exists(path) })
	for path, now := range v.Settings {
		c.noBurst = c.noBurst || now.NoBurst
		if before, ok := c.expected[path]; ok {
			c.compare(path, before, now)
		}
	}
}

// Learn adds the group of a pod or container that was created since the last observation.
func (c *Control) Learn(path string, where kubepods.Place, settings cgroup.Settings) {
	if c.view == nil {
		return
	}
	c.view.Settings[path] = settings
	c.noBurst = c.noBurst || settings.NoBurst
	at := slices.IndexFunc(c.view.Pods, func(p kubepods.Pod) bool { return p.UID == where.PodUID })
	if at < 0 {
		at = len(c.view.Pods)
		c.view.Pods = append(c.view.Pods, kubepods.Pod{Path: path, UID: where.PodUID, Tier: where.Tier})
	}
	pod := &c.view.Pods[at]
	if where.Container == "" {
		pod.Path = path
		return
	}
	if !slices.ContainsFunc(pod.Containers, func(k kubepods.Container) bool { return k.Path == path }) {
		pod.Containers = append(pod.Containers, kubepods.Container{Path: path, ID: where.Container, Runtime: where.Runtime})
	}
}
