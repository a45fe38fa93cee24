// Package batch decides how much CPU time batch pods may use, and what puts them behind all others.
//
//	c.Tick(round, &tick, &done) // every tenth of a second
//	c.Input(round, &state)      // of a plan: mechanisms and budget
//	c.Decide(round, &writes)
package batch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
)

const (
	// asleep is the usage up to which batch work does not want to run: a thread that does gets more
	// even with idle priority beside others that use all CPUs.
	asleep quantity.CPUs = 0.001
	// lately is the time in which what batch pods have used counts.
	lately = 10 * time.Second
)

// Controller is the state between ticks.
type Controller struct {
	groups.Idle
	priority colocation.Priority
	floor    quantity.CPUs
	budget   *colocation.Budget // nil without a bound
	// Decision is the last one. Invariant: it is the zero value without a bound.
	Decision colocation.Decision
	// ran and free are the times of the last ticks in which batch pods were not asleep, and had more
	// than the floor without a quota; 0 for none.
	ran, free time.Duration
}

// New returns a controller without a bound if the threshold is 0.
func New(priority colocation.Priority, config colocation.Config) *Controller {
	c := &Controller{priority: priority, floor: config.Floor}
	if config.Threshold > 0 {
		c.budget = colocation.New(config)
	}
	return c
}

// Mechanisms returns what puts batch pods behind all others on this node. It is the zero value
// before the first observation.
func (c *Controller) Mechanisms(g *groups.Groups) colocation.Choice {
	if !g.Observed() {
		return colocation.Choice{}
	}
	return c.priority.Choose(func(m colocation.Mechanism) bool { return g.Lacking[m] != "" })
}

// Bounded reports whether the CPU time of batch pods is to be bounded. Then ticks are needed.
func (c *Controller) Bounded() bool { return c.budget != nil }

// Budget returns what all batch pods together may use, or 0 if that is not decided.
func (c *Controller) Budget() ledger.MilliCPU { return MilliCPU(c.Decision.Budget) }

// MilliCPU rounds to thousandths of a CPU.
func MilliCPU(cpus quantity.CPUs) ledger.MilliCPU {
	return ledger.MilliCPU(math.Round(float64(cpus) * 1000))
}

// Input adds what puts batch pods behind all others, and what they may use.
func (c *Controller) Input(r *groups.Round, s *nodeplan.State) {
	s.Batch, s.BatchBudget = c.Mechanisms(r.Groups), c.Budget()
}

// Tick decides how much CPU time batch pods may use. It is to be written if the budget has changed.
func (c *Controller) Tick(r *groups.Round, t *groups.Tick, done *groups.Ticked) {
	if !c.Bounded() || t.Colocation == nil {
		return
	}
	before, used := c.Budget(), *t.Colocation
	used.CPUs = r.SharedCPUs().Len()
	used.NoBatch = !c.waits(r.Groups, used) || !slices.ContainsFunc(r.Planned, func(l groups.Planned) bool {
		return l.IsBatch() && l.Pod.Object.Status.Phase == corev1.PodRunning
	})
	c.Decision = c.budget.Step(used)
	done.Write = done.Write || c.Budget() != before
}

// waits reports whether batch pods would use more CPU time than the floor: they have not been
// asleep lately, and have had no more, as they may where another pod of their tier prevents the
// quota.
func (c *Controller) waits(g *groups.Groups, t colocation.Tick) bool {
	if t.Batch > asleep {
		c.ran = t.Now
	}
	if t.Batch > c.floor && g.Settings[g.BatchTier()].Quota == bandwidth.Unlimited {
		c.free = t.Now
	}
	since := func(at time.Duration) bool { return at != 0 && t.Now-at <= lately }
	return since(c.ran) && !since(c.free)
}

// Decide adds the settings to write: cpu.idle, cpu.bvt_warp_ns, and the quota of the
// tier of batch pods. That quota of an earlier agent is removed by the first decision, or, if there
// is to be a bound, stays until the first sample.
func (c *Controller) Decide(r *groups.Round, w *groups.Writes) {
	isBatchTier := func(p nodeplan.PodSettings) bool { return p.Tier == qos.BestEffort }
	bounds := r.First
	if c.Bounded() {
		bounds = c.Decision.Budget > 0 || !slices.ContainsFunc(r.Plan.Pods, isBatchTier)
	}
	w.Want(wanted(r, bounds))
}

// Restore adds the settings to write so that all cgroups have the planned ones.
func (*Controller) Restore(r *groups.Round, w *groups.Writes) { w.Want(wanted(r, true)) }

// wanted returns what differs from the plan. bounds is whether that includes the quota.
func wanted(r *groups.Round, bounds bool) map[string]cgroup.Wanted {
	all := map[string]cgroup.Wanted{}
	for i := range r.Planned {
		if w := order(r, &r.Planned[i]); w != (cgroup.Wanted{}) {
			all[r.Planned[i].Path] = w
		}
	}
	tier := r.BatchTier()
	if w := groups.LimitChanges(r.Settings[tier], r.Plan.Tier(qos.BestEffort).Limits); bounds && r.Exists(tier) && w != (cgroup.Wanted{}) {
		all[tier] = w
	}
	return all
}

// order returns the changes of cpu.idle and cpu.bvt_warp_ns.
func order(r *groups.Round, l *groups.Planned) (w cgroup.Wanted) {
	present := r.Settings[l.Path]
	if idle := l.Want.Idle; l.IsPod() && idle != present.Idle && !present.NoIdle {
		if w.Idle = &idle; !idle { // clearing idle sets the default weight
			w.Weight = new(kubepods.PodWeight(r.Layout.CPU, l.Pod.Shares()))
		}
	}
	if bvt := l.Want.BVT; bvt != present.BVT && !present.NoBVT {
		w.BVT = &bvt
	}
	return w
}

// Notices adds that the tier of batch pods has idle priority, which the agent does not set (the kernel
// then rejects the weights that the kubelet writes to the tier), and which mechanisms the machine lacks.
func (c *Controller) Notices(r *groups.Round, n *groups.Notices) {
	if tier := r.BatchTier(); r.Settings[tier].Idle {
		n.Note(nil, groups.IdleTier, "another program has set cpu.idle of %s, so all pods of QoS class "+
			"BestEffort run behind all others, and the kubelet cannot write their weight; the agent leaves it", tier)
	}
	chosen := c.Mechanisms(r.Groups)
	if len(chosen.Lacking) == 0 {
		return
	}
	var why, used []string
	for _, m := range chosen.Lacking {
		why = append(why, fmt.Sprintf("%s (%s)", m, r.Lacking[m]))
	}
	for _, m := range chosen.Use {
		used = append(used, string(m))
	}
	instead := "so batch pods run like others"
	if len(used) > 0 {
		instead = "the agent uses " + strings.Join(used, " and ")
	}
	n.Note(nil, groups.LackingMechanism, "to put batch pods behind others, the machine lacks %s; %s", strings.Join(why, ", "), instead)
}
