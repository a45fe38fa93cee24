// Package batchpods decides about batch pods: what puts them behind all others, how much CPU time they
// may use together, and what the node offers to them.
//
//	wanted := c.Decide(state)
//	status := c.Status(state, exclusive)
//
//	changed := c.Tick(state, tick) // ten times a second, with a bound
package batchpods

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

// Reasons of notices.
const (
	// IdleTier: another program has given idle priority to the tier of batch pods.
	IdleTier = "IdleTier"
	// LackingMechanism: the machine lacks a mechanism that is to put batch pods behind all others.
	LackingMechanism = "LackingMechanism"
)

// Controller decides about batch pods. Its methods must not be called concurrently.
type Controller struct {
	priority colocation.Priority
	floor    quantity.CPUs
	// budget decides how much CPU time batch pods may use, and decided is its last decision. Without
	// a bound budget is nil.
	budget  *colocation.Budget
	decided colocation.Decision
	// ran and free are the times of the last ticks in which batch pods were not asleep, and had more
	// than the floor without a quota; 0 for none.
	ran, free time.Duration
}

// New returns a controller. With a threshold of 0 there is no bound.
func New(priority colocation.Priority, bound colocation.Config) *Controller {
	c := &Controller{priority: priority, floor: bound.Floor}
	if bound.Threshold > 0 {
		c.budget = colocation.New(bound)
	}
	return c
}

// Mechanisms returns what puts batch pods behind all others on this node.
func (c *Controller) Mechanisms(view *node.View) colocation.Choice {
	return c.priority.Choose(func(m colocation.Mechanism) bool { return view.Lacking[m] != "" })
}

// Budget returns what all batch pods together may use, 0 without a bound.
func (c *Controller) Budget() ledger.MilliCPU { return milliCPU(c.decided.Budget) }

func milliCPU(cpus quantity.CPUs) ledger.MilliCPU {
	return ledger.MilliCPU(math.Round(float64(cpus) * 1000))
}

// tier returns the path of the tier of batch pods.
func tier(view *node.View) string {
	return view.Tiers[slices.Index(nodeplan.Tiers(), nodeplan.BestEffort)]
}

// isBatch reports whether a cgroup is that of a batch pod of QoS class BestEffort. class is the class
// that the plan follows.
func isBatch(l *node.Limited, pod *node.Pod, class nodeplan.Class) bool {
	return l.IsPod() && class == nodeplan.BE && pod != nil && pod.Plan.Tier == nodeplan.BestEffort
}

// Tick decides how much CPU time batch pods may use, and reports whether that has changed. Without an
// observation or a bound the last decision stays.
func (c *Controller) Tick(s *node.State, observed *colocation.Tick) (decided colocation.Decision, changed bool) {
	if observed == nil || c.budget == nil {
		return c.decided, false
	}
	before, t := c.Budget(), *observed
	t.CPUs = s.SharedCPUs().Len()
	t.NoBatch = !c.waits(s, t)
	c.decided = c.budget.Step(t)
	return c.decided, c.Budget() != before
}

const (
	// asleep is the usage up to which batch work does not want to run: a thread that does gets more
	// even with idle priority beside others that use all CPUs.
	asleep quantity.CPUs = 0.001
	// lately is the time in which what batch pods have used counts.
	lately = 10 * time.Second
)

// waits reports whether a batch pod runs that would use more CPU time than the floor: it has not been
// asleep lately, and has had no more, as it may where another pod of its tier prevents the quota.
func (c *Controller) waits(s *node.State, t colocation.Tick) bool {
	if t.Batch > asleep {
		c.ran = t.Now
	}
	if t.Batch > c.floor && s.View.Settings[tier(s.View)].Quota == bandwidth.Unlimited {
		c.free = t.Now
	}
	since := func(at time.Duration) bool { return at != 0 && t.Now-at <= lately }
	if !since(c.ran) || since(c.free) {
		return false
	}
	return slices.ContainsFunc(s.Limited, func(l node.Limited) bool {
		pod := s.Pods.Of(l.Ref.Pod)
		return isBatch(&l, pod, s.Classes[l.Ref.Pod]) && pod.Object.Status.Phase == corev1.PodRunning
	})
}

// Decide returns the changes of cpu.idle, cpu.bvt_warp_ns and, of the tier of batch pods, the quota,
// by path.
func (c *Controller) Decide(s *node.State) map[string]cgroup.Wanted {
	all := c.priorities(s)
	if c.setsQuota(s) {
		setQuota(all, s)
	}
	return all
}

// Restore returns the changes that restore the kubelet's settings. s.Plan is the kubelet's.
func (c *Controller) Restore(s *node.State) map[string]cgroup.Wanted {
	all := c.priorities(s)
	setQuota(all, s)
	return all
}

func (c *Controller) priorities(s *node.State) map[string]cgroup.Wanted {
	all := map[string]cgroup.Wanted{}
	for i := range s.Limited {
		l := &s.Limited[i]
		present := s.View.Settings[l.Path]
		var w cgroup.Wanted
		if idle := l.Idle; l.IsPod() && idle != present.Idle && !present.NoIdle {
			if w.Idle = &idle; !idle {
				w.Weight = new(kubeletsWeight(s, l.Ref.Pod)) // clearing idle sets the default weight
			}
		}
		if bvt := l.BVT; bvt != present.BVT && !present.NoBVT {
			w.BVT = &bvt
		}
		if w != (cgroup.Wanted{}) {
			all[l.Path] = w
		}
	}
	return all
}

// kubeletsWeight returns the weight that the kubelet gives to the cgroup of a pod.
func kubeletsWeight(s *node.State, id ledger.PodID) cgroup.Weight {
	request := uint64(api.EffectiveRequest(s.Pods.Of(id).Object))
	return kubepods.PodWeight(s.View.Layout.CPU, request*1024/1000)
}

// setsQuota reports whether a decision sets the quota of the tier of batch pods. That of an earlier
// agent is removed by the first decision, or, if there is to be a bound, stays until the first
// sample.
func (c *Controller) setsQuota(s *node.State) bool {
	if c.budget == nil {
		return s.First
	}
	return c.decided.Budget > 0 ||
		!slices.ContainsFunc(s.Plan.Pods, func(p nodeplan.PodSettings) bool { return p.Tier == nodeplan.BestEffort })
}

// setQuota adds the change of the quota of the tier of batch pods.
func setQuota(all map[string]cgroup.Wanted, s *node.State) {
	path := tier(s.View)
	if w := node.Changes(s.View.Settings[path], s.Plan.Tier(nodeplan.BestEffort).Limits); s.View.Exists(path) && w != (cgroup.Wanted{}) {
		all[path] = w
	}
}

// Notes returns the note about mechanisms that are to be used and that the machine lacks, and that
// about a tier of batch pods with idle priority. The agent does not set that: the kernel then rejects
// the weights that the kubelet writes to the tier.
func (c *Controller) Notes(view *node.View) (notes []node.Notice) {
	if view.Settings[tier(view)].Idle {
		notes = append(notes, node.Notice{Reason: IdleTier, Message: fmt.Sprintf("another program has set cpu.idle of %s, so all pods of QoS class BestEffort run "+
			"behind all others, and the kubelet cannot write their weight; the agent leaves it", tier(view))})
	}
	chosen := c.Mechanisms(view)
	if len(chosen.Lacking) == 0 {
		return notes
	}
	var why, used []string
	for _, m := range chosen.Lacking {
		why = append(why, fmt.Sprintf("%s (%s)", m, view.Lacking[m]))
	}
	for _, m := range chosen.Use {
		used = append(used, string(m))
	}
	instead := "so batch pods run like others"
	if len(used) > 0 {
		instead = "the agent uses " + strings.Join(used, " and ")
	}
	return append(notes, node.Notice{Reason: LackingMechanism, Message: fmt.Sprintf("to put batch pods behind others, the machine lacks %s; %s",
		strings.Join(why, ", "), instead)})
}
