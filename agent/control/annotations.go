package control

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Reasons of notices about annotations and labels.
const (
	// AboveCeiling: a pod asks for more than the administrator allows.
	AboveCeiling = "AboveCeiling"
	// UnknownKey: an annotation or label has no effect and may be misspelled.
	UnknownKey = "UnknownAnnotation"
	// Postponed: changed annotations have no effect yet.
	Postponed = "ChangePostponed"
)

// annotations are the bandwidth settings in a pod's annotations and labels, within the ceilings.
type annotations struct {
	class     nodeplan.Class
	period    time.Duration
	burst     burst.Policy
	allocated bool // the pod has an allocation, so its quota is lifted
}

// adopted are the annotations that the plan follows for a pod. Changes are adopted when the write
// budgets of the pod's cgroups can pay for the writes.
type adopted struct {
	annotations
	// limits are the limits of the pod and its containers at that time. They change at a resize.
	limits []ledger.MilliCPU
	// early is set if the pod is older than this agent. Its budgets start without credit.
	early        bool
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

// applyCeilings fills in the agent's burst policy and limits the annotations to the ceilings.
func (c *Control) applyCeilings(s podState) podState {
	ceiling := c.config.Ceilings.For(s.object.Namespace)
	requested := s.annotations
	_, burstExceeds := ceiling.CapBurst(requested.burst) // without the agent's policy
	s.annotations.burst, _ = ceiling.CapBurst(requested.burst.Or(c.config.Burst))
	period, periodExceeds := ceiling.CapPeriod(requested.period)
	s.annotations.period = period
	s.aboveCeiling = slices.DeleteFunc([]string{burstExceeds, periodExceeds}, func(text string) bool { return text == "" })
	return s
}

// Waiting returns the paths of the cgroups of pods with changed bandwidth annotations that are not
// yet adopted. Pass their usage to Control.SetGroupUsage before the next decision.
func (c *Control) Waiting() (paths []string) {
	for i := range c.pods {
		if a := c.adopted[c.pods[i].plan.ID]; a != nil && a.annotations != c.pods[i].annotations {
			for _, b := range a.budgets {
				paths = append(paths, b.path)
			}
		}
	}
	return paths
}

// SetGroupUsage sets the CPU time that a cgroup has used since it was created.
func (c *Control) SetGroupUsage(path string, usage time.Duration) { c.groupUsage[path] = usage }

// adoptedAnnotations returns the annotations that the plan follows.
func (c *Control) adoptedAnnotations(s *podState) annotations {
	if a := c.adopted[s.plan.ID]; a != nil {
		return a.annotations
	}
	return s.annotations
}

// adopt adopts changed annotations if the budgets of the pod's cgroups pay for it. Each write of
// quota, period or burst refills the kernel's bucket; without budgets, annotations that change all
// the time would lift the limit.
func (c *Control) adopt(g groups, now time.Time) {
	if c.began.IsZero() {
		c.began = now
	}
	waiting := false
	all := make(map[ledger.PodID]*adopted, len(c.pods))
	for i := range c.pods {
		s := &c.pods[i]
		a := c.adoptedFor(s, g)
		all[s.plan.ID] = a
		if a.allocated && !s.annotations.allocated { // CPUs that a pod gives up are free at once
			a.allocated = false
			c.startPeriod(a)
		}
		c.updatePodBudgets(a, s, g, now.Sub(c.began))
		waiting = waiting || a.annotations != s.annotations
	}
	c.adopted = all
	clear(c.groupUsage)
	if !waiting {
		return
	}
	unpaid := c.unpaid(g)
	for i := range c.pods {
		s := &c.pods[i]
		a := all[s.plan.ID]
		made := c.exists(g.pods[s.plan.ID])
		if !unpaid[s.plan.ID] {
			a.annotations = s.annotations
			if !made { // no cgroup has paid
				c.startPeriod(a)
			}
		}
		switch {
		case a.annotations == s.annotations || !made:
			a.waitingSince = time.Time{}
		case a.waitingSince.IsZero():
			a.waitingSince = now
		}
	}
}

// startPeriod gives a pod the kubelet's period instead of a longer one, which must be paid for. A
// new cgroup begins with a full bucket, and so does one whose removed quota is restored. With a
// period of a second, pods that are created again and again would use twice their limits.
func (c *Control) startPeriod(a *adopted) {
	if a.period > c.kubelet.Quota.PeriodOrDefault() {
		a.period = 0
	}
}

// adoptedFor returns the adopted annotations of a pod. A new pod starts with its own annotations,
// but not with a long period. A pod that is older than the agent, and one whose limits have
// changed, starts with the settings that its cgroups hold.
func (c *Control) adoptedFor(s *podState, g groups) *adopted {
	a := c.adopted[s.plan.ID]
	if a == nil {
		a = &adopted{annotations: s.annotations, limits: s.limits(), early: !c.recovered, budgets: map[string]*budget{}}
		c.startPeriod(a)
		if a.early {
			a.annotations = c.annotationsInForce(s, g)
		}
	}
	if limits := s.limits(); !s.resizing && !slices.Equal(limits, a.limits) {
		a.annotations, a.limits = c.annotationsInForce(s, g), limits
	}
	return a
}

// annotationsInForce returns the annotations that come closest to the settings of the pod's
// cgroups. The policy for raising quota is the pod's, because adopting it writes nothing.
func (c *Control) annotationsInForce(s *podState, g groups) annotations {
	a := s.annotations
	var period, percent time.Duration // the shortest period, and the largest burst in percent of its quota
	look := func(path string, limit ledger.MilliCPU) {
		present, ok := c.view.Settings[path]
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
	look(g.pods[s.plan.ID], s.plan.Limit)
	for i := range s.plan.Containers {
		container := &s.plan.Containers[i]
		look(g.containers[nodeplan.Ref{Pod: s.plan.ID, Container: container.Name}], cmp.Or(container.Limit, s.plan.Limit))
	}
	if period == 0 { // no cgroup with a quota
		return a
	}
	if a.class == nodeplan.BE && !isBehind(c.view.Settings[g.pods[s.plan.ID]]) {
		a.class = ""
	}
	ceiling := c.config.Ceilings.For(s.object.Namespace)
	a.burst, _ = ceiling.CapBurst(a.burst.WithKernel(int(percent)))
	a.period, _ = ceiling.CapPeriod(period)
	if a.period == c.kubelet.Quota.PeriodOrDefault() {
		a.period = 0
	}
	return a
}

// updatePodBudgets brings the budgets of a pod's cgroups up to date. at is the time since the first
// decision.
func (c *Control) updatePodBudgets(a *adopted, s *podState, g groups, at time.Duration) {
	update := func(container, path string) {
		present, ok := c.view.Settings[path]
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
		if usage, ok := c.groupUsage[path]; ok {
			b.Used(at, usage)
		}
	}
	update("", g.pods[s.plan.ID])
	for i := range s.plan.Containers {
		name := s.plan.Containers[i].Name
		update(name, g.containers[nodeplan.Ref{Pod: s.plan.ID, Container: name}])
	}
}

// updateBudgets records the bandwidth of all cgroups after a round.
func (c *Control) updateBudgets(now time.Time) {
	for _, a := range c.adopted {
		for _, b := range a.budgets {
			if present, ok := c.view.Settings[b.path]; ok {
				b.InForce(now.Sub(c.began), present.Limits)
			}
		}
	}
}

// unpaid returns the pods whose budgets do not pay for the writes that their present annotations
// require.
func (c *Control) unpaid(g groups) map[ledger.PodID]bool {
	unpaid := map[ledger.PodID]bool{}
	d := nodeplan.Plan(c.state(g, func(s *podState) annotations { return s.annotations }))
	for _, l := range c.limitedGroups(d, g) {
		b := c.adopted[l.Ref.Pod].budgets[l.Ref.Container]
		quota, kernelBurst := c.refill(&l)
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
func (c *Control) refill(l *Limited) (quota, kernelBurst time.Duration) {
	present := c.view.Settings[l.Path]
	quota = max(present.Quota, l.want.Quota)
	if limitChanges(present, l.want) == (cgroup.Wanted{}) || quota <= 0 {
		return 0, 0
	}
	return quota, max(present.Burst, l.want.Burst)
}

// annotationNotices returns what the authors of pods should know about their annotations.
func (c *Control) annotationNotices(now time.Time) (all []Notice) {
	for i := range c.pods {
		s := &c.pods[i]
		add := func(reason, message string) {
			all = append(all, Notice{s.object, reason, fmt.Sprintf("pod %s: %s", s.name(), message)})
		}
		for _, message := range s.aboveCeiling {
			add(AboveCeiling, message)
		}
		for _, message := range s.unknown {
			add(UnknownKey, message)
		}
		if a := c.adopted[s.plan.ID]; a != nil && !s.resizing && !a.waitingSince.IsZero() && now.Sub(a.waitingSince) >= tellAfter {
			add(Postponed, "its CPU annotations take effect when its containers have used less than their limits for a moment, "+
				"because the change itself gives them CPU time")
		}
	}
	return all
}
