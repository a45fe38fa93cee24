package control

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
)

// words are what a pod's author says about its bandwidth, within the ceilings.
type words struct {
	class  nodeplan.Class
	period time.Duration
	burst  burst.Policy
	asks   bool // it has an allocation, and its quota is lifted
}

// adopted are the words by which a pod's groups are planned. They follow those on the pod as
// soon as the budgets of its groups pay for the writes.
type adopted struct {
	words
	// limits are those of the pod and its containers when the words were adopted; they
	// change with a resize.
	limits []ledger.MilliCPU
	// early says that the pod was there before this agent: its groups begin without credit.
	early   bool
	budgets map[string]*budget // by container, that of the pod under ""
	waits   time.Time          // since when others wait to be adopted, zero while none do
}

// budget is that of one group.
type budget struct {
	burst.Budget
	path string
}

// tellAfter is how long new words wait before users are told.
const tellAfter = 10 * time.Second

// read is newPodState, with the flags and ceilings of the agent.
func (c *Control) read(s podState) podState {
	ceiling := c.config.Ceilings.For(s.object.Namespace)
	asked := s.words
	_, cappedBurst := ceiling.CapBurst(asked.burst) // not what the flags fill in
	period, cappedPeriod := ceiling.CapPeriod(asked.period)
	s.words.burst, _ = ceiling.CapBurst(asked.burst.Or(c.config.Burst))
	s.words.period, s.capped = period, nil
	for _, says := range []string{cappedBurst, cappedPeriod} {
		if says != "" {
			s.capped = append(s.capped, says)
		}
	}
	return s
}

// limits are what a resize changes.
func (s *podState) limits() []ledger.MilliCPU {
	all := []ledger.MilliCPU{s.plan.Limit}
	for i := range s.plan.Containers {
		all = append(all, s.plan.Containers[i].Limit)
	}
	return all
}

// Waiting returns the groups of pods with changed bandwidth annotations that are not yet adopted.
// Pass their usage to Control.Used before the next decision.
func (c *Control) Waiting() (paths []string) {
	for i := range c.pods {
		if a := c.adopted[c.pods[i].plan.ID]; a != nil && a.words != c.pods[i].words {
			for _, b := range a.budgets {
				paths = append(paths, b.path)
			}
		}
	}
	return paths
}

// Used records the CPU time that a group has used since it was created.
func (c *Control) Used(path string, usage time.Duration) { c.usages[path] = usage }

// adopt has the plan follow the words on the pods, as far as their budgets pay for it.
// Without budgets, annotations that change to and fro would lift limits: each write of
// quota, period or burst refills the kernel's bucket.
func (c *Control) adopt(g groups, now time.Time) {
	if c.began.IsZero() {
		c.began = now
	}
	at, waiting := now.Sub(c.began), false
	all := make(map[ledger.PodID]*adopted, len(c.pods))
	for i := range c.pods {
		s := &c.pods[i]
		a := c.begin(s, g)
		all[s.plan.ID] = a
		a.asks = a.asks && s.words.asks // what is given up is another's at once
		c.account(a, s, g, at)
		waiting = waiting || a.words != s.words
	}
	c.adopted = all
	clear(c.usages)
	if !waiting {
		return
	}
	refused := c.refused(g)
	for i := range c.pods {
		s := &c.pods[i]
		a := all[s.plan.ID]
		switch {
		case a.words == s.words:
			a.waits = time.Time{}
		case !refused[s.plan.ID]:
			a.words, a.waits = s.words, time.Time{}
		case a.waits.IsZero():
			a.waits = now
		}
	}
}

// begin returns the adopted words of a pod. Those of a pod that is seen for the first time are
// what it says; but where groups are that were set before, by an agent before this one or at
// a resize, they are what these groups hold.
func (c *Control) begin(s *podState, g groups) *adopted {
	a := c.adopted[s.plan.ID]
	if a == nil {
		a = &adopted{words: s.words, limits: s.limits(), early: !c.restored, budgets: map[string]*budget{}}
		if a.early {
			a.words = c.found(s, g)
		}
	}
	if limits := s.limits(); !s.resizing && !slices.Equal(limits, a.limits) {
		a.words, a.limits = c.found(s, g), limits
	}
	return a
}

// found are the words that come nearest to what a pod's groups hold. Raising quota is as the
// pod says: no write begins it.
func (c *Control) found(s *podState, g groups) words {
	w := s.words
	period, percent := time.Duration(0), time.Duration(0)
	look := func(path string, limit ledger.MilliCPU) {
		present, ok := c.view.Settings[path]
		if !ok || present.Quota <= 0 {
			return
		}
		if period == 0 || present.Period < period {
			period = present.Period
		}
		quota := present.Quota // which may be raised
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
	if period == 0 { // no group, or none with a quota
		return w
	}
	if w.class == nodeplan.BE && !c.view.Settings[g.pods[s.plan.ID]].Idle {
		w.class = nodeplan.LS
	}
	w.burst = w.burst.WithKernel(int(percent))
	ceiling := c.config.Ceilings.For(s.object.Namespace)
	w.burst, _ = ceiling.CapBurst(w.burst)
	w.period, _ = ceiling.CapPeriod(period)
	if w.period == c.kubelet.Quota.PeriodOrDefault() {
		w.period = 0
	}
	return w
}

// account brings the budgets of a pod's groups up to date.
func (c *Control) account(a *adopted, s *podState, g groups, at time.Duration) {
	one := func(name, path string) {
		present, ok := c.view.Settings[path]
		if !ok || present.Period == 0 { // its bandwidth was not read
			return
		}
		l := present.Limits
		b := a.budgets[name]
		switch {
		case b == nil && a.early:
			b = &budget{burst.OpenKnown(at, l), path}
		case b == nil:
			b = &budget{burst.OpenNew(at, l), path}
		case b.path != path:
			b.Replaced(at, l)
			b.path = path
		default:
			b.InForce(at, l)
		}
		a.budgets[name] = b
		if usage, told := c.usages[path]; told {
			b.Used(at, usage)
		}
	}
	one("", g.pods[s.plan.ID])
	for i := range s.plan.Containers {
		name := s.plan.Containers[i].Name
		one(name, g.containers[nodeplan.Ref{Pod: s.plan.ID, Container: name}])
	}
}

// updateBudgets tells the budgets what their groups hold after a round.
func (c *Control) updateBudgets(now time.Time) {
	for _, a := range c.adopted {
		for _, b := range a.budgets {
			if present, ok := c.view.Settings[b.path]; ok {
				b.InForce(now.Sub(c.began), present.Limits)
			}
		}
	}
}

// refused are the pods whose budgets do not pay for the writes of what they say now.
func (c *Control) refused(g groups) map[ledger.PodID]bool {
	refused := map[ledger.PodID]bool{}
	d := nodeplan.Plan(c.stateOf(g, func(s *podState) words { return s.words }))
	for _, l := range c.limitedGroups(d, g) {
		b := c.adopted[l.ref.Pod].budgets[l.ref.Container]
		bucket := c.bucket(&l)
		if l.resizes || bucket > 0 && (b == nil || !b.Pays(bucket)) {
			refused[l.ref.Pod] = true
		}
	}
	return refused
}

// bucket is the largest bucket that the writes of a group can fill, 0 when nothing is
// to be written. A quota that is lifted has to be put back at last.
func (c *Control) bucket(l *limited) time.Duration {
	w, present := c.rest(*l), c.view.Settings[l.path]
	quota := max(present.Quota, l.want.Quota)
	if w.Quota == nil && w.Period == nil && w.Burst == nil || quota <= 0 {
		return 0
	}
	return quota + max(present.Burst, l.want.Burst)
}

// aboutWords is what the authors of pods should know about their words.
func (c *Control) aboutWords(now time.Time) (all []Notice) {
	for i := range c.pods {
		s := &c.pods[i]
		name := c.podName(s.plan.ID)
		for _, says := range s.capped {
			all = append(all, Notice{s.object, AboveCeiling, fmt.Sprintf("pod %s: %s", name, says)})
		}
		for _, says := range s.unknown {
			all = append(all, Notice{s.object, UnknownKey, fmt.Sprintf("pod %s: %s", name, says)})
		}
		if a := c.adopted[s.plan.ID]; a != nil && !s.resizing && !a.waits.IsZero() && now.Sub(a.waits) >= tellAfter {
			all = append(all, Notice{s.object, Postponed, fmt.Sprintf("pod %s: the change of its CPU annotations waits until its containers "+
				"have used less than their limits for a moment, because the change itself gives them CPU time", name)})
		}
	}
	return all
}

// Reasons of notices about words.
const (
	// AboveCeiling says that a pod asks for more than the administrator allows.
	AboveCeiling = "AboveCeiling"
	// UnknownKey says that an annotation or label is not read, as it may be misspelled.
	UnknownKey = "UnknownAnnotation"
	// Postponed says that changed annotations have no effect yet.
	Postponed = "ChangePostponed"
)
