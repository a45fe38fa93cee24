package control

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

// mechanisms returns what puts batch pods behind all others on this node. It is the zero value
// before the first observation.
func (c *Control) mechanisms() colocation.Choice {
	if c.view == nil {
		return colocation.Choice{}
	}
	return c.config.Priority.Choose(func(m colocation.Mechanism) bool { return c.view.Lacking[m] != "" })
}

// lackingNotes returns the note about mechanisms that are to be used and that the machine lacks.
func (c *Control) lackingNotes() []Notice {
	chosen := c.mechanisms()
	if len(chosen.Lacking) == 0 {
		return nil
	}
	var why, used []string
	for _, m := range chosen.Lacking {
		why = append(why, fmt.Sprintf("%s (%s)", m, c.view.Lacking[m]))
	}
	for _, m := range chosen.Use {
		used = append(used, string(m))
	}
	instead := "so batch pods run like others"
	if len(used) > 0 {
		instead = "the agent uses " + strings.Join(used, " and ")
	}
	return []Notice{{Reason: LackingMechanism, Message: fmt.Sprintf("to put batch pods behind others, the machine lacks %s; %s", strings.Join(why, ", "), instead)}}
}

// isBehind reports whether a pod with these settings runs behind all others.
func isBehind(s cgroup.Settings) bool { return s.Idle || s.BVT < 0 }

// BatchPod is a running batch pod.
type BatchPod struct {
	Namespace, Name, Path string
	// Request is its request of pinfold.dev/batch-cpu, in thousandths of a CPU.
	Request int64
}

// batchStatus returns what is known about batch pods after a decision.
func (c *Control) batchStatus() Batch {
	b := Batch{Mechanisms: c.mechanisms(), Bounded: c.batch != nil, Tier: c.batchTier(), Decision: c.batched}
	b.Excluded = []string{b.Tier}
	for path, cpus := range c.exclusive {
		if !cpus.IsEmpty() {
			b.Excluded = append(b.Excluded, path)
		}
	}
	for i := range c.pods {
		if pod := c.pods[i].object; pod.Status.Phase == corev1.PodRunning && !c.pods[i].departed {
			b.Requested += api.BatchRequest(pod)
		}
	}
	for i := range c.limited {
		l := &c.limited[i]
		if !l.isPod() {
			if a := c.adopted[l.Ref.Pod]; a != nil && a.class == nodeplan.LS && c.exists(l.Path) {
				b.Online = append(b.Online, l.Path)
			}
			continue
		}
		if s := c.batchPod(l); s != nil {
			b.Pods = append(b.Pods, BatchPod{l.Namespace, l.Name, l.Path, api.BatchRequest(s.object)})
		} else {
			b.Others = append(b.Others, l.Path)
		}
		if l.separate {
			b.Separate = append(b.Separate, l.Path)
		} else {
			b.Together = append(b.Together, l.Path)
		}
	}
	return b
}

// suppress decides how much CPU time batch pods may use after a tick, and reports whether the
// budget has changed.
func (c *Control) suppress(t colocation.Tick) (changed bool) {
	before := c.batchBudget()
	t.CPUs = c.sharedCPUs().Len()
	t.NoBatch = !c.batchWaits(t)
	c.batched = c.batch.Step(t)
	return c.batchBudget() != before
}

const (
	// asleep is the usage up to which batch work does not want to run: a thread that does gets more
	// even with idle priority beside others that use all CPUs.
	asleep quantity.CPUs = 0.001
	// lately is the time in which what batch pods have used counts.
	lately = 10 * time.Second
)

// batchWaits reports whether a batch pod runs that would use more CPU time than the floor: it has
// not been asleep lately, and has had no more, as it may where another pod of its tier prevents the
// quota.
func (c *Control) batchWaits(t colocation.Tick) bool {
	if t.Batch > asleep {
		c.batchRan = t.Now
	}
	if t.Batch > c.config.Batch.Floor && c.view.Settings[c.batchTier()].Quota == bandwidth.Unlimited {
		c.batchFree = t.Now
	}
	since := func(at time.Duration) bool { return at != 0 && t.Now-at <= lately }
	if !since(c.batchRan) || since(c.batchFree) {
		return false
	}
	return slices.ContainsFunc(c.limited, func(l Limited) bool {
		s := c.batchPod(&l)
		return s != nil && s.object.Status.Phase == corev1.PodRunning
	})
}

// batchPod returns the batch pod of QoS class BestEffort whose cgroup this is, or nil.
func (c *Control) batchPod(l *Limited) *podState {
	a, s := c.adopted[l.Ref.Pod], c.pod(l.Ref.Pod)
	if l.isPod() && a != nil && a.class == nodeplan.BE && s != nil && s.plan.Tier == nodeplan.BestEffort {
		return s
	}
	return nil
}

func (c *Control) batchBudget() ledger.MilliCPU { return milliCPU(c.batched.Budget) }

func milliCPU(cpus quantity.CPUs) ledger.MilliCPU {
	return ledger.MilliCPU(math.Round(float64(cpus) * 1000))
}

// batchTier returns the path of the tier of batch pods, once the cgroups have been observed.
func (c *Control) batchTier() string {
	return c.view.Tiers[slices.Index(nodeplan.Tiers(), nodeplan.BestEffort)]
}

// setsBatchQuota reports whether a decision sets the quota of the tier of batch pods. That of an
// earlier agent is removed by the first decision, or, if there is to be a bound, stays until the
// first sample.
func (c *Control) setsBatchQuota(d nodeplan.Desired) bool {
	if c.batch == nil {
		return !c.recovered
	}
	return c.batched.Budget > 0 ||
		!slices.ContainsFunc(d.Pods, func(p nodeplan.PodSettings) bool { return p.Tier == nodeplan.BestEffort })
}

// setBatchQuota adds the change of the quota of the tier of batch pods.
func (c *Control) setBatchQuota(a *Decision, d nodeplan.Desired) {
	path := c.batchTier()
	if w := limitChanges(c.view.Settings[path], d.Tier(nodeplan.BestEffort).Limits); c.exists(path) && w != (cgroup.Wanted{}) {
		a.Bandwidth[path] = w
	}
}

// idleTierNotes returns the note about a tier of batch pods with idle priority, which the agent
// does not set: the kernel then rejects the weights that the kubelet writes to the tier.
func (c *Control) idleTierNotes() []Notice {
	if c.view == nil || !c.view.Settings[c.batchTier()].Idle {
		return nil
	}
	return []Notice{{Reason: IdleTier, Message: fmt.Sprintf("another program has set cpu.idle of %s, so all pods of QoS class BestEffort run "+
		"behind all others, and the kubelet cannot write their weight; the agent leaves it", c.batchTier())}}
}
