package quota

import (
	"cmp"
	"slices"
	"time"

	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Postponed is the reason of the notice that changed annotations have no effect yet.
const Postponed = "ChangePostponed"

// adopted are the annotations that the plan follows for a pod. Changes are adopted when the write
// budgets of the pod's cgroups can pay for the writes.
type adopted struct {
	node.Annotations
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

// Waiting returns the paths of the cgroups of pods with changed bandwidth annotations that are not
// yet adopted. Pass their usage to Controller.SetGroupUsage before the next decision.
func (c *Controller) Waiting(pods []node.Pod) (paths []string) {
	for i := range pods {
		if a := c.adopted[pods[i].Plan.ID]; a != nil && a.Annotations != pods[i].Annotations {
			for _, b := range a.budgets {
				paths = append(paths, b.path)
			}
		}
	}
	return paths
}

// SetGroupUsage sets the CPU time that a cgroup has used since it was created.
func (c *Controller) SetGroupUsage(path string, usage time.Duration) { c.groupUsage[path] = usage }

// Annotations returns the annotations that the plan follows.
func (c *Controller) Annotations(p *node.Pod) node.Annotations {
	if a := c.adopted[p.Plan.ID]; a != nil {
		return a.Annotations
	}
	return p.Annotations
}

// Adopt adopts changed annotations if the budgets of the pod's cgroups pay for it. Each write of
// quota, period or burst refills the kernel's bucket; without budgets, annotations that change all
// the time would lift the limit. planned returns the cgroups with a plan that follows all pods'
// present annotations.
func (c *Controller) Adopt(s *node.State, planned func() []node.Limited) {
	if c.began.IsZero() {
		c.began = s.Now
	}
	waiting := false
	pods := s.Pods.All()
	all := make(map[ledger.PodID]*adopted, len(pods))
	for i := range pods {
		p := &pods[i]
		a := c.adoptedFor(s, p)
		all[p.Plan.ID] = a
		if a.Allocated && !p.Annotations.Allocated { // CPUs that a pod gives up are free at once
			a.Allocated = false
			a.startPeriod(s)
		}
		c.updatePodBudgets(s, a, p)
		waiting = waiting || a.Annotations != p.Annotations
	}
	c.adopted = all
	clear(c.groupUsage)
	if !waiting {
		return
	}
	unpaid := c.unpaid(s, planned())
	for i := range pods {
		p := &pods[i]
		a := all[p.Plan.ID]
		made := s.View.Exists(s.Groups.Pods[p.Plan.ID])
		if !unpaid[p.Plan.ID] {
			a.Annotations = p.Annotations
			if !made { // no cgroup has paid
				a.startPeriod(s)
			}
		}
		switch {
		case a.Annotations == p.Annotations || !made:
			a.waitingSince = time.Time{}
		case a.waitingSince.IsZero():
			a.waitingSince = s.Now
		}
	}
}

// startPeriod gives a pod the kubelet's period instead of a longer one, which must be paid for. A
// new cgroup begins with a full bucket, and so does one whose removed quota is restored. With a
// period of a second, pods that are created again and again would use twice their limits.
func (a *adopted) startPeriod(s *node.State) {
	if a.Period > s.Period {
		a.Period = 0
	}
}

// adoptedFor returns the adopted annotations of a pod. A new pod starts with its own annotations,
// but not with a long period. A pod that is older than the agent, and one whose limits have
// changed, starts with the settings that its cgroups hold.
func (c *Controller) adoptedFor(s *node.State, p *node.Pod) *adopted {
	a := c.adopted[p.Plan.ID]
	if a == nil {
		a = &adopted{Annotations: p.Annotations, limits: p.Limits(), early: s.First, budgets: map[string]*budget{}}
		a.startPeriod(s)
		if a.early {
			a.Annotations = annotationsInForce(s, p)
		}
	}
	if limits := p.Limits(); !p.Resizing && !slices.Equal(limits, a.limits) {
		a.Annotations, a.limits = annotationsInForce(s, p), limits
	}
	return a
}

// annotationsInForce returns the annotations that come closest to the settings of the pod's
// cgroups. The policy for raising quota is the pod's, because adopting it writes nothing.
func annotationsInForce(s *node.State, p *node.Pod) node.Annotations {
	a := p.Annotations
	var period, percent time.Duration // the shortest period, and the largest burst in percent of its quota
	look := func(path string, limit ledger.MilliCPU) {
		present, ok := s.View.Settings[path]
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
	look(s.Groups.Pods[p.Plan.ID], p.Plan.Limit)
	for i := range p.Plan.Containers {
		container := &p.Plan.Containers[i]
		look(s.Groups.Containers[nodeplan.Ref{Pod: p.Plan.ID, Container: container.Name}], cmp.Or(container.Limit, p.Plan.Limit))
	}
	if period == 0 { // no cgroup with a quota
		return a
	}
	if a.Class == nodeplan.BE && !node.IsBehind(s.View.Settings[s.Groups.Pods[p.Plan.ID]]) {
		a.Class = ""
	}
	a.Burst, a.Period = a.Burst.WithKernel(int(percent)), period
	a = s.Pods.Cap(p.Object.Namespace, a)
	if a.Period == s.Period {
		a.Period = 0
	}
	return a
}

// updatePodBudgets brings the budgets of a pod's cgroups up to date.
func (c *Controller) updatePodBudgets(s *node.State, a *adopted, p *node.Pod) {
	at := s.Now.Sub(c.began)
	update := func(container, path string) {
		present, ok := s.View.Settings[path]
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
	update("", s.Groups.Pods[p.Plan.ID])
	for i := range p.Plan.Containers {
		name := p.Plan.Containers[i].Name
		update(name, s.Groups.Containers[nodeplan.Ref{Pod: p.Plan.ID, Container: name}])
	}
}

// Applied records a round's writes, and the bandwidth of all cgroups after it.
func (c *Controller) Applied(s *node.State, written []cgroup.Write, failed map[string]error) {
	c.countWrites(written, failed)
	for _, a := range c.adopted {
		for _, b := range a.budgets {
			if present, ok := s.View.Settings[b.path]; ok {
				b.InForce(s.Now.Sub(c.began), present.Limits)
			}
		}
	}
}

// unpaid returns the pods whose budgets do not pay for the writes that a plan requires.
func (c *Controller) unpaid(s *node.State, planned []node.Limited) map[ledger.PodID]bool {
	unpaid := map[ledger.PodID]bool{}
	for i := range planned {
		l := &planned[i]
		b := c.adopted[l.Ref.Pod].budgets[l.Ref.Container]
		quota, kernelBurst := refill(s.View.Settings[l.Path], l)
		if l.Resizing || quota > 0 && (b == nil || !b.Pays(quota, kernelBurst)) {
			unpaid[l.Ref.Pod] = true
		}
	}
	return unpaid
}

// refill returns the largest quota and burst to which the writes to a cgroup can refill it, or 0 if
// nothing has to be written. For a quota that is to be removed it returns the present one, which
// will have to be restored. A cgroup that another program owns is the agent's again when its limit
// changes.
func refill(present cgroup.Settings, l *node.Limited) (quota, kernelBurst time.Duration) {
	quota = max(present.Quota, l.Want.Quota)
	if node.Changes(present, l.Want) == (cgroup.Wanted{}) || quota <= 0 {
		return 0, 0
	}
	return quota, max(present.Burst, l.Want.Burst)
}

// Notices returns which changed annotations are waiting.
func (c *Controller) Notices(s *node.State) (notices []node.Notice) {
	pods := s.Pods.All()
	for i := range pods {
		p := &pods[i]
		if a := c.adopted[p.Plan.ID]; a != nil && !p.Resizing && !a.waitingSince.IsZero() && s.Now.Sub(a.waitingSince) >= tellAfter {
			notices = append(notices, p.Notice(Postponed, "its CPU annotations take effect when its containers have used less than their limits for a moment, "+
				"because the change itself gives them CPU time"))
		}
	}
	return notices
}
