package control

import (
	"cmp"
	"slices"
	"time"

	"pinfold.dev/pinfold/agent/control/cpus"
	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/agent/control/quota"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Decision is the writes that follow from the inputs. [Decision.Execute] carries them out. What
// else follows is in the [Status], which depends on which writes the kernel accepts.
type Decision struct {
	// Hold is the reason why nothing is changed, or "".
	Hold string
	cpus.Writes
	// Bandwidth are the changes of quota, period, burst, cpu.idle and cpu.bvt_warp_ns, by path. They
	// come after Narrow and before Partitions; see the package comment.
	Bandwidth map[string]cgroup.Wanted
	// Foreign are the changes by other writers that these writes undo or leave in force.
	Foreign []node.Foreign
	// Raised are the paths of the containers whose quota is raised, for less than a second.
	Raised []string
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
	case !c.Pods.Listed():
		return "the pods of this node are not known: the API server has not been reached since the agent started"
	case c.state.View == nil:
		return "the control groups have not been read"
	}
	return ""
}

// Decide returns the decision that follows from the inputs.
func (c *Control) Decide(now time.Time) Decision {
	if hold := c.hold(); hold != "" {
		return Decision{Hold: hold}
	}
	c.Pods.ForgetCreated(c.state.View, now)
	c.begin(now)
	if c.state.First {
		c.previous = cpus.CoreSetsInForce(&c.state)
	}
	c.quota.Adopt(&c.state, func() []node.Limited {
		planned := c.state
		planned.Plan.Desired = nodeplan.Plan(c.input(func(p *node.Pod) node.Annotations { return p.Annotations }))
		return planned.FindLimited()
	})
	input := c.input(c.quota.Annotations)
	c.follow(input, nodeplan.Plan(input))
	c.previous = c.state.Plan.CoreSets

	s := &c.state
	d := merge(c.cpus.Decide(s), c.quota.Decide(s), c.batch.Decide(s))
	d.Foreign = append(d.undone(s.Changed), d.Foreign...)
	s.First = false
	return d
}

// Restore returns the decision that restores the settings of the kubelet with the CPU manager
// policy none: all CPUs for every cgroup, including those of unknown containers, and every limit as
// a quota.
func (c *Control) Restore() Decision {
	if hold := c.hold(); hold != "" {
		return Decision{Hold: hold}
	}
	c.begin(c.state.Now)
	input := c.input(c.quota.Annotations)
	c.follow(input, nodeplan.Kubelet(input))
	s := &c.state
	return merge(c.cpus.Restore(s), c.quota.Restore(s), c.batch.Restore(s))
}

// merge combines what the controllers want. It is the only place where they meet: of a cgroup, CPUs
// and partition are the CPU controller's; quota, period and burst are the quota controller's, those
// of the tier of batch pods the batch controller's; cpu.idle, its weight and cpu.bvt_warp_ns are the
// batch controller's.
func merge(cpus cpus.Writes, bandwidth quota.Decision, batch map[string]cgroup.Wanted) Decision {
	for path, b := range batch {
		w := bandwidth.Wanted[path]
		w.Idle, w.Weight, w.BVT = b.Idle, b.Weight, b.BVT
		if b.Quota != nil || b.Period != nil || b.Burst != nil { // the tier, which has no limit
			w.Quota, w.Period, w.Burst = b.Quota, b.Period, b.Burst
		}
		bandwidth.Wanted[path] = w
	}
	return Decision{Writes: cpus, Bandwidth: bandwidth.Wanted, Foreign: bandwidth.Left, Raised: bandwidth.Raised}
}

// begin makes the state that of a new decision, without its plan.
func (c *Control) begin(now time.Time) {
	s := &c.state
	s.Now, s.Binds, s.Period, s.Changed = now, c.bindingOff() == "", c.kubelet.Quota.PeriodOrDefault(), c.watch.Changed
	s.Groups = node.Locate(c.Pods, s.View)
}

// follow makes d the plan, and finds the cgroups whose bandwidth it has.
func (c *Control) follow(input nodeplan.State, d nodeplan.Desired) {
	s := &c.state
	s.Plan = node.NewPlan(input, d)
	s.Classes = make(map[ledger.PodID]nodeplan.Class, len(input.Pods))
	for i := range input.Pods {
		s.Classes[input.Pods[i].ID] = input.Pods[i].Class
	}
	s.Limited = s.FindLimited()
}

// input returns the input of a plan. annotationsOf returns the annotations that a pod is planned
// with.
func (c *Control) input(annotationsOf func(*node.Pod) node.Annotations) nodeplan.State {
	s := nodeplan.State{
		Index:         c.index,
		Config:        ledger.Config{Reserved: c.reserved, ReservedCPUs: c.kubelet.ReservedCPUs, MinShared: c.config.MinShared},
		BindingOff:    c.bindingOff(),
		Kubelet:       c.kubelet.Quota,
		Usage:         c.usage,
		Previous:      c.previous,
		Tuning:        c.config.Tuning,
		Batch:         c.batch.Mechanisms(c.state.View),
		BatchBudget:   c.batch.Budget(),
		NoKernelBurst: c.noBurst,
	}
	pods := c.Pods.All()
	for i := range pods {
		pod, a := pods[i].Plan, annotationsOf(&pods[i])
		pod.Class, pod.Period, pod.Burst = a.Class, a.Period, a.Burst
		if !a.Allocated && pods[i].Annotations.Allocated {
			pod.Claim.Containers, pod.Claim.SharedRequest = nil, api.EffectiveRequest(pods[i].Object)
		}
		pod.Containers = slices.Clone(pod.Containers)
		for j := range pod.Containers {
			container := &pod.Containers[j]
			ref := nodeplan.Ref{Pod: pod.ID, Container: container.Name}
			container.Used = c.used[ref]
			container.Raised = c.quota.Raised(c.state.View, c.state.Groups.Containers[ref], cmp.Or(pod.Period, s.Kubelet.PeriodOrDefault()))
			if c.Pods.IsCreated(ref) {
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

// undone returns the foreign changes that the decision undoes.
func (a *Decision) undone(changed []node.Foreign) []node.Foreign {
	cpus := map[string]bool{} // cgroups whose CPUs are written
	for _, m := range a.Moves {
		cpus[m.Path] = true
	}
	for path := range a.Narrow {
		cpus[path] = true
	}
	var all []node.Foreign
	for _, f := range changed {
		w := a.Bandwidth[f.Path]
		switch {
		case f.Field == node.FieldCPUs && (cpus[f.Path] || a.Widen[f.Path].CPUs != nil),
			f.Field == node.FieldQuota && w.Quota != nil,
			f.Field == node.FieldPeriod && w.Period != nil,
			f.Field == node.FieldBurst && w.Burst != nil,
			f.Field == node.FieldIdle && w.Idle != nil,
			f.Field == node.FieldBVT && w.BVT != nil,
			f.Field == node.FieldPartition && (a.Release[f.Path].Partition != nil || a.Partitions[f.Path].Partition != nil):
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(x, y node.Foreign) int {
		return cmp.Or(cmp.Compare(x.Path, y.Path), cmp.Compare(x.Field, y.Field))
	})
	return all
}
