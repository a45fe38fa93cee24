package control

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// unknownMark is the first character of [nodeplan.Ref.Container] for cgroups of unknown containers.
// Kubernetes allows it in no container name.
const unknownMark = "#"

// forgetAfter is the time after which a container that the runtime announced, but that has neither
// cgroup nor status, is forgotten: its creation has failed.
const forgetAfter = 30 * time.Second

// groups are the paths of the cgroups of pods and containers. The containers include unknown and
// others.
type groups struct {
	pods       map[ledger.PodID]string
	containers map[nodeplan.Ref]string
	unknown    []nodeplan.Ref // with the id of an unknown container, such as a sandbox
	others     []nodeplan.Ref // with a name that is not a container's
}

// locate finds the cgroups of all pods and containers.
func (c *Control) locate() groups {
	g := groups{pods: map[ledger.PodID]string{}, containers: map[nodeplan.Ref]string{}}
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
				ref.Container = unknownMark + container.ID
				g.unknown = append(g.unknown, ref)
			}
			g.containers[ref] = container.Path
		}
		for _, other := range pod.Others {
			ref := nodeplan.Ref{Pod: id, Container: unknownMark + path.Base(other)}
			g.others = append(g.others, ref)
			g.containers[ref] = other
		}
	}
	return g
}

// withCoreSets returns the paths of the containers that have core sets.
func (g groups) withCoreSets(of nodeplan.CoreSets) map[nodeplan.Ref]string {
	found := make(map[nodeplan.Ref]string, len(of.Sets))
	for ref := range of.Sets {
		if path, ok := g.containers[ref]; ok {
			found[ref] = path
		}
	}
	return found
}

// KnownIDs returns the ids of all known containers. Of other containers only the CPUs need to be
// observed.
func (c *Control) KnownIDs() map[string]bool {
	ids := map[string]bool{}
	for _, made := range c.runtime {
		ids[made.id] = true
	}
	for i := range c.pods {
		for _, id := range c.pods[i].ids {
			ids[id] = true
		}
	}
	return ids
}

// idOf returns the id of a container, or "". The runtime knows it earlier than the pod's status.
func (c *Control) idOf(s *podState, name string) string {
	if made, ok := c.runtime[nodeplan.Ref{Pod: s.plan.ID, Container: name}]; ok {
		return made.id
	}
	return s.ids[name]
}

// forgetCreated removes announced containers that are now in a pod's status, and those whose
// creation failed.
func (c *Control) forgetCreated(now time.Time) {
	exists := map[string]bool{}
	for _, pod := range c.view.Pods {
		for _, container := range pod.Containers {
			exists[container.ID] = true
		}
	}
	for ref, made := range c.runtime {
		s := c.pod(ref.Pod)
		inStatus := s != nil && s.ids[ref.Container] == made.id
		if inStatus || now.Sub(made.at) > forgetAfter && !exists[made.id] {
			delete(c.runtime, ref)
		}
	}
}

// state returns the input of a plan. annotationsOf returns the annotations that a pod is planned
// with.
func (c *Control) state(g groups, annotationsOf func(*podState) annotations) nodeplan.State {
	s := nodeplan.State{
		Index:         c.index,
		Config:        ledger.Config{Reserved: c.reserved, ReservedCPUs: c.kubelet.ReservedCPUs, MinShared: c.config.MinShared},
		BindingOff:    c.bindingOff(),
		Kubelet:       c.kubelet.Quota,
		Usage:         c.usage,
		Previous:      c.previous,
		Tuning:        c.config.Tuning,
		Batch:         c.mechanisms(),
		BatchBudget:   c.batchBudget(),
		NoKernelBurst: c.noBurst,
	}
	for i := range c.pods {
		pod, a := c.pods[i].plan, annotationsOf(&c.pods[i])
		pod.Class, pod.Period, pod.Burst = a.class, a.period, a.burst
		if !a.allocated && c.pods[i].annotations.allocated {
			pod.Claim.Containers, pod.Claim.SharedRequest = nil, api.EffectiveRequest(c.pods[i].object)
		}
		pod.Containers = slices.Clone(pod.Containers)
		for j := range pod.Containers {
			container := &pod.Containers[j]
			ref := nodeplan.Ref{Pod: pod.ID, Container: container.Name}
			container.Used = c.used[ref]
			container.Raised = c.raisedQuota(g.containers[ref], cmp.Or(pod.Period, s.Kubelet.PeriodOrDefault()))
			if _, ok := c.runtime[ref]; ok {
				container.Phase = nodeplan.Running
			}
		}
		s.Pods = append(s.Pods, pod)
	}
	return s
}

// bindingOff returns the reason why CPUs must not be bound under the kubelet's CPU manager policy,
// or "".
func (c *Control) bindingOff() string {
	if c.kubelet.CPUManagerPolicy == "none" {
		return ""
	}
	return "the kubelet's cpuManagerPolicy is " + c.kubelet.CPUManagerPolicy + ", so the kubelet binds containers itself: " +
		"set it to none, delete cpu_manager_state in the kubelet's directory and restart the kubelet"
}

// binds reports whether the agent sets cpusets on this node.
func (c *Control) binds() bool { return c.bindingOff() == "" }

// sharedCPUs returns the CPUs that containers without CPUs of their own run on.
func (c *Control) sharedCPUs() cpuset.Set {
	if !c.binds() {
		return c.machine().Online()
	}
	return c.plan.Shared
}

// coreSetsInForce reads the core sets that an earlier agent set from the cgroups of static-burst
// containers. A cgroup with all CPUs was never given a core set.
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

// assignmentsNow returns the present cpusets of the containers in to.
func (c *Control) assignmentsNow(to []nodeplan.Assignment, g groups) []nodeplan.Assignment {
	var from []nodeplan.Assignment
	for _, a := range to {
		path := g.containers[a.Ref]
		own, planned := c.exclusive[path]
		if !planned && a.Exclusive { // set by an earlier agent
			own = a.CPUs
		}
		held := c.held(path) // not exclusive if the cgroup holds more than its own CPUs
		from = append(from, nodeplan.Assignment{Ref: a.Ref, CPUs: held, Exclusive: !own.IsEmpty() && held.IsSubsetOf(own)})
	}
	return from
}

// held returns the CPUs that the threads of a cgroup may run on. On version 2 a cgroup without CPUs
// of its own has those of its parent.
func (c *Control) held(group string) cpuset.Set {
	if cpus := c.view.Settings[group].CPUs; !cpus.IsEmpty() {
		return cpus
	}
	if parent := path.Dir(group); c.exists(parent) && c.view.Layout.CPUSet == cgroup.V2 {
		return c.held(parent)
	}
	return c.machine().Online() // the parent of all tiers is never narrowed
}

// assignmentsWanted returns the planned cpusets of cgroups that exist. Unknown containers get the
// shared CPUs.
func (c *Control) assignmentsWanted(d nodeplan.Desired, g groups) []nodeplan.Assignment {
	to := slices.DeleteFunc(d.Assignments(), func(a nodeplan.Assignment) bool { return !c.exists(g.containers[a.Ref]) })
	if !c.binds() {
		return to
	}
	for _, ref := range g.unknown {
		if c.exists(g.containers[ref]) && !d.Shared.IsEmpty() {
			to = append(to, nodeplan.Assignment{Ref: ref, CPUs: d.Shared})
		}
	}
	pods := c.plannedByPod(d, g)
	for _, ref := range g.others {
		if a := otherAssignment(ref, d, pods[ref.Pod], isMonitor(g.containers[ref])); c.exists(g.containers[ref]) && !a.CPUs.IsEmpty() {
			to = append(to, a)
		}
	}
	return to
}

// plannedCPUs are the planned CPUs of the running containers of a pod.
type plannedCPUs struct {
	all, exclusive cpuset.Set // of those that have no cgroup of their own
	own            cpuset.Set // all exclusive ones
}

// plannedByPod returns the planned CPUs by pod, if any pod has a cgroup whose name is not a
// container's.
func (c *Control) plannedByPod(d nodeplan.Desired, g groups) map[ledger.PodID]plannedCPUs {
	if len(g.others) == 0 {
		return nil
	}
	pods := map[ledger.PodID]plannedCPUs{}
	for _, a := range d.Assignments() {
		in := pods[a.Ref.Pod]
		runsHere := !c.exists(g.containers[a.Ref])
		if runsHere {
			in.all = in.all.Union(a.CPUs)
		}
		if a.Exclusive {
			in.own = in.own.Union(a.CPUs)
		}
		if runsHere && a.Exclusive {
			in.exclusive = in.exclusive.Union(a.CPUs)
		}
		pods[a.Ref.Pod] = in
	}
	return pods
}

// otherAssignment returns the CPUs of a cgroup whose name is not a container's. Running containers
// of its pod that have no cgroup of their own (for example, in a virtual machine) run in it, so it
// gets their CPUs. Without such containers it is a helper, and gets the shared CPUs. In a pod with
// exclusive CPUs it gets only these, because the pod's quota is removed and nothing else bounds it.
// CRI-O's monitor is an exception.
func otherAssignment(other nodeplan.Ref, d nodeplan.Desired, in plannedCPUs, monitor bool) nodeplan.Assignment {
	switch {
	case !in.exclusive.IsEmpty():
		return nodeplan.Assignment{Ref: other, CPUs: in.exclusive, Exclusive: true}
	case !in.own.IsEmpty() && !monitor:
		return nodeplan.Assignment{Ref: other, CPUs: in.own, Exclusive: true}
	case !in.all.IsEmpty():
		return nodeplan.Assignment{Ref: other, CPUs: in.all}
	}
	return nodeplan.Assignment{Ref: other, CPUs: d.Shared}
}

// isMonitor reports whether a cgroup is that of CRI-O's monitor.
func isMonitor(group string) bool { return strings.Contains(path.Base(group), "conmon") }

func (c *Control) exists(path string) bool {
	_, ok := c.view.Settings[path]
	return path != "" && ok
}

// Observe sets the present settings of the cgroups.
func (c *Control) Observe(v View) {
	if v.Lacking == nil && c.view != nil {
		v.Lacking = c.view.Lacking
	}
	c.view, c.changed = &v, nil
	c.pods = slices.DeleteFunc(c.pods, func(s podState) bool { return s.departed && !c.runs(s.plan.ID) })
	maps.DeleteFunc(c.writes, func(path string, _ int) bool { return !c.exists(path) })
	for path, now := range v.Settings {
		c.noBurst = c.noBurst || now.NoBurst
		if before, ok := c.expected[path]; ok {
			c.compare(path, before, now)
		}
	}
}

// AddGroup adds the cgroup of a pod or container that was created since the last observation.
func (c *Control) AddGroup(path string, where kubepods.Place, settings cgroup.Settings) {
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
