package quota

import (
	"cmp"
	"slices"
	"time"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/linux/cgroup"
)

// wishes are what a pod asks for, and whether it has CPUs of its own, for which its quota is lifted.
type wishes struct {
	pods.Annotations
	allocated bool
}

func wishesOf(r *groups.Round, s *pods.Pod) wishes {
	_, has := r.Claims[s.Object.UID]
	return wishes{s.Annotations, has}
}

// adopted are the wishes that the plan follows for a pod. Changes are adopted when the write budgets of
// the pod's cgroups can pay for the writes.
type adopted struct {
	wishes
	// limits are the limits of the pod and its containers at that time. They change at a resize.
	limits []ledger.MilliCPU
	// early is set if the pod is older than this agent. Its budgets start without credit.
	early        bool
	ran          bool               // a container of the pod has run
	budgets      map[string]*budget // by container; "" for the pod's own
	waitingSince time.Time          // zero if no change is waiting
}

// budget is the write budget of one cgroup.
type budget struct {
	burst.Budget
	path string
}

// tellAfter is the time after which users are told that changed annotations are waiting.
const tellAfter = 10 * time.Second

// Prepare returns the paths of the cgroups of pods with changed bandwidth annotations that are not yet
// adopted. Pass their usage to SetUsage before the next decision.
func (c *Controller) Prepare(r *groups.Round) (paths []string) {
	for i := range r.Pods {
		if a := c.adopted[r.Pods[i].Plan.ID]; a != nil && a.wishes != wishesOf(r, &r.Pods[i]) {
			for _, b := range a.budgets {
				paths = append(paths, b.path)
			}
		}
	}
	return paths
}

// SetUsage sets the CPU time that a cgroup has used since it was created.
func (c *Controller) SetUsage(path string, usage time.Duration) { c.usage[path] = usage }

// followed returns the wishes of a pod that the plan follows.
func (c *Controller) followed(r *groups.Round, s *pods.Pod) wishes {
	if a := c.adopted[s.Plan.ID]; a != nil && !c.pricing {
		return a.wishes
	}
	return wishesOf(r, s)
}

// Notices tells the authors of pods whose changed annotations have had no effect for a while.
func (c *Controller) Notices(r *groups.Round, n *groups.Notices) {
	for i := range r.Pods {
		s := &r.Pods[i]
		if a := c.adopted[s.Plan.ID]; a != nil && !s.Resizing && !a.waitingSince.IsZero() && r.Now.Sub(a.waitingSince) >= tellAfter {
			n.Tell(s, groups.Postponed, "its CPU annotations take effect when its containers have used less than their limits for a moment, "+
				"because the change itself gives them CPU time")
		}
	}
}

// Adopt brings the write budgets up to date, and reports whether changed annotations wait. The next plan
// follows all annotations. If some wait, AdoptPaid and another plan must follow.
func (c *Controller) Adopt(r *groups.Round) (waiting bool) {
	if c.began.IsZero() {
		c.began = r.Now
	}
	all := make(map[ledger.PodID]*adopted, len(r.Pods))
	for i := range r.Pods {
		s := &r.Pods[i]
		a, now := c.adoptedFor(r, s), wishesOf(r, s)
		all[s.Plan.ID] = a
		if a.allocated && !now.allocated { // CPUs that a pod gives up are free at once
			a.allocated = false
			a.startPeriod(r)
		}
		c.updatePodBudgets(r, a, s)
		waiting = waiting || a.wishes != now
	}
	c.adopted = all
	clear(c.usage)
	c.pricing = waiting
	return waiting
}

// AdoptPaid adopts changed annotations if the budgets of the pod's cgroups pay for the writes that
// the plan with all present annotations requires. Each write of quota, period or burst refills the
// kernel's bucket; without budgets, annotations that change all the time would lift the limit.
func (c *Controller) AdoptPaid(r *groups.Round) {
	unpaid := c.unpaid(r)
	c.pricing = false
	for i := range r.Pods {
		s := &r.Pods[i]
		a, now := c.adopted[s.Plan.ID], wishesOf(r, s)
		made := r.Exists(r.Pod[s.Plan.ID])
		if !unpaid[s.Plan.ID] {
			a.wishes = now
			if !made { // no cgroup has paid
				a.startPeriod(r)
			}
		}
		switch {
		case a.wishes == now || !made:
			a.waitingSince = time.Time{}
		case a.waitingSince.IsZero():
			a.waitingSince = r.Now
		}
	}
}

// startPeriod gives a pod the kubelet's period instead of a longer one, which must be paid for. A
// new cgroup begins with a full bucket, and so does one whose removed quota is restored. With a
// period of a second, pods that are created again and again would use twice their limits.
func (a *adopted) startPeriod(r *groups.Round) {
	if a.Period > r.Period {
		a.Period = 0
	}
}

// adoptedFor returns the adopted annotations of a pod. A new pod starts with its own annotations,
// but not with a long period. A pod that is older than the agent, and one whose limits have
// changed, starts with the settings that its cgroups hold.
func (c *Controller) adoptedFor(r *groups.Round, s *pods.Pod) *adopted {
	a, now, limits := c.adopted[s.Plan.ID], wishesOf(r, s), s.Limits()
	if a == nil {
		a = &adopted{wishes: now, limits: limits, early: r.First, budgets: map[string]*budget{}}
		a.startPeriod(r)
		if a.early {
			a.Annotations = c.annotationsInForce(r, s)
		}
	}
	a.ran = a.ran || slices.ContainsFunc(s.Plan.Containers, func(k nodeplan.Container) bool {
		return r.Exists(r.Container[nodeplan.Ref{Pod: s.Plan.ID, Container: k.Name}])
	})
	if !a.ran { // its groups have used nothing, so there is nothing to pay for
		a.allocated = now.allocated
	}
	if !s.Resizing && !slices.Equal(limits, a.limits) {
		a.Annotations, a.allocated, a.limits = c.annotationsInForce(r, s), now.allocated, limits
	}
	return a
}

// annotationsInForce returns the annotations that come closest to the settings of the pod's
// cgroups. The policy for raising quota is the pod's, because adopting it writes nothing.
func (c *Controller) annotationsInForce(r *groups.Round, s *pods.Pod) pods.Annotations {
	a := s.Annotations
	var period, percent time.Duration // the shortest period, and the largest burst in percent of its quota
	look := func(path string, limit ledger.MilliCPU) {
		present, ok := r.Settings[path]
		if !ok || present.Quota <= 0 {
			return
		}
		if period == 0 || present.Period < period {
			period = present.Period
		}
		quota := present.Quota // may be raised
		if limit > 0 {
			quota = max(time.Microsecond, time.Duration(limit)*present.Period/1000)
		}
		percent = max(percent, min(100, (100*present.Burst+quota/2)/quota))
	}
	look(r.Pod[s.Plan.ID], s.Plan.Limit)
	for i := range s.Plan.Containers {
		container := &s.Plan.Containers[i]
		look(r.Container[nodeplan.Ref{Pod: s.Plan.ID, Container: container.Name}], cmp.Or(container.Limit, s.Plan.Limit))
	}
	if period == 0 { // no cgroup with a quota
		return a
	}
	if a.Class == qos.BE && !groups.IsBehind(r.Settings[r.Pod[s.Plan.ID]]) {
		a.Class = ""
	}
	ceiling := c.ceilings.For(s.Object.Namespace)
	a.Burst, _ = ceiling.CapBurst(a.Burst.WithKernel(int(percent)))
	a.Period, _ = ceiling.CapPeriod(period)
	if a.Period == r.Period {
		a.Period = 0
	}
	return a
}

// updatePodBudgets brings the budgets of a pod's cgroups up to date.
func (c *Controller) updatePodBudgets(r *groups.Round, a *adopted, s *pods.Pod) {
	at := r.Now.Sub(c.began)
	update := func(container, path string) {
		present, ok := r.Settings[path]
		if !ok || present.Period == 0 { // the bandwidth was not read
			return
		}
		b := a.budgets[container]
		switch {
		case b == nil && a.early:
			b = &budget{burst.OpenKnown(at, present.Limits), path}
		case b == nil:
			b = &budget{burst.OpenNew(at, present.Limits), path}
		case b.path != path:
			b.Replaced(at, present.Limits)
			b.path = path
		default:
			b.InForce(at, present.Limits)
		}
		a.budgets[container] = b
		if usage, ok := c.usage[path]; ok {
			b.Used(at, usage)
		}
	}
	update("", r.Pod[s.Plan.ID])
	for i := range s.Plan.Containers {
		name := s.Plan.Containers[i].Name
		update(name, r.Container[nodeplan.Ref{Pod: s.Plan.ID, Container: name}])
	}
}

// updateBudgets records the bandwidth of all cgroups after a round.
func (c *Controller) updateBudgets(r *groups.Round) {
	for _, a := range c.adopted {
		for _, b := range a.budgets {
			if present, ok := r.Settings[b.path]; ok {
				b.InForce(r.Now.Sub(c.began), present.Limits)
			}
		}
	}
}

// unpaid returns the pods whose budgets do not pay for the writes that the plan requires.
func (c *Controller) unpaid(r *groups.Round) map[ledger.PodID]bool {
	unpaid := map[ledger.PodID]bool{}
	for _, l := range plannedGroups(r) {
		b := c.adopted[l.Ref.Pod].budgets[l.Ref.Container]
		quota, kernelBurst := refill(r, l)
		if l.resizing || quota > 0 && (b == nil || !b.Pays(quota, kernelBurst)) {
			unpaid[l.Ref.Pod] = true
		}
	}
	return unpaid
}

// refill returns the largest quota and burst to which the writes to a cgroup can refill it, or 0 if
// nothing has to be written. For a quota that is to be removed it returns the present one, which
// will have to be restored. A cgroup that another program owns is the agent's again when its limit
// changes.
func refill(r *groups.Round, l group) (quota, kernelBurst time.Duration) {
	present := r.Settings[l.Path]
	quota = max(present.Quota, l.Want.Quota)
	if groups.LimitChanges(present, l.Want.Limits) == (cgroup.Wanted{}) || quota <= 0 {
		return 0, 0
	}
	return quota, max(present.Burst, l.Want.Burst)
}
