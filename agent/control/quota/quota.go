// Package quota decides on quota, period and burst of the cgroups of pods and containers: which
// changed annotations the plan follows, which quotas are raised, and which are left to other
// programs.
//
//	c.Prepare(round)       // says of which cgroups the usage is to be read
//	if c.Adopt(round) {    // changed annotations wait
//		c.AdoptPaid(round) // of a plan with these
//	}
//	c.Decide(round, &writes)
//	c.Applied(round, &outcome)
//
// and every tenth of a second, between these:
//
//	c.Tick(round, &tick, &done)
//
// Input adds to a plan the annotations in force and raised quotas.
//
// # Quota, period and burst
//
// Quota, period and burst follow the plan, with three exceptions:
//
//   - While the kubelet may be changing the limit of a pod, the API does not yet show which of the
//     two limits is in force, so the pod's bandwidth is not changed. Only what would make the kernel
//     reject the new quota is undone: a burst above it, and a raise. A change of anything else in
//     the spec is no such change, and neither is one that the kubelet has deferred or refused: the
//     limit is then the one in the pod's status. A quota that was removed is always restored; of
//     two limits the smaller one counts.
//   - With --quota-owner=other, a cgroup in which another writer changed one of the three belongs to
//     that writer until the cgroup ends or its limit changes. The same applies to values found at
//     the start that neither the kubelet nor an agent would have set.
//   - A quota may be raised temporarily, as package burst decides.
//
// A raise is part of every later plan, so that no round undoes it and the pod's cgroup has room for
// it. All writes to a container's bandwidth, including those of other writers, are counted and
// charged at the next tick.
//
// # Bandwidth annotations
//
// Bandwidth settings in annotations and labels are limited by the configured ceilings. The plan
// adopts a change when the write budgets of the pod's cgroups ([burst.Budget]) can pay for the
// writes, because each write refills the kernel's bucket. Until then the values adopted before
// remain in force.
//
// At the start, and after a resize, the settings found in the cgroups count as adopted.
package quota

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Controller is the state between rounds.
type Controller struct {
	ceilings api.Ceilings
	// leaves is set if values of other programs stay in force. owned are the cgroups whose bandwidth
	// is left to them, with the quota and period of the limit at that time.
	leaves bool
	owned  map[string]bandwidth.Limits
	// planned are the cgroups of the last plan. lifted are the raised quotas that were planned last
	// outside of a resize, by path.
	planned []group
	lifted  map[string]lift
	// raised are the quotas above limits that were decided, by path. decisions are those of the last
	// tick (kept to reuse the memory). writes counts the writes to bandwidth files since then, by
	// path.
	burst     *burst.Controller
	raised    map[string]Raise
	decisions []burst.Decision
	writes    map[string]int
	// adopted are the annotations that the plan follows. usage is what SetUsage has recorded since
	// the last decision, by path. began is the time of the first decision.
	adopted map[ledger.PodID]*adopted
	// pricing is set while a plan follows all annotations, to see what adopting them costs.
	pricing bool
	usage   map[string]time.Duration
	began   time.Time
}

// SetCeilings replaces the ceilings.
func (c *Controller) SetCeilings(ceilings api.Ceilings) { c.ceilings = ceilings }

// New returns a controller without any state. leaves is set if values that other programs write
// stay in force until the cgroup ends or its limit changes.
func New(ceilings api.Ceilings, leaves bool) *Controller {
	return &Controller{ceilings: ceilings, leaves: leaves, owned: map[string]bandwidth.Limits{}, burst: burst.New(), raised: map[string]Raise{},
		writes: map[string]int{}, usage: map[string]time.Duration{}}
}

// group is a planned cgroup.
type group struct {
	*groups.Planned
	// resizing is set while the quota is left to the kubelet, which is changing it: of all cgroups of
	// a pod without CPUs of its own, unless the quota of one of them must be restored.
	resizing bool
}

// lift is a raised quota, and the one of the limit.
type lift struct{ quota, base time.Duration }

// plannedGroups returns the cgroups of a round.
func plannedGroups(r *groups.Round) []group {
	all := make([]group, len(r.Planned))
	for i := range r.Planned {
		all[i].Planned = &r.Planned[i]
	}
	for first := 0; first < len(all); {
		pod, end := all[first].Pod, first+1
		for end < len(all) && all[end].Ref.Pod == all[first].Ref.Pod {
			end++
		}
		of := all[first:end]
		if pod.Resizing && len(r.Claims[pod.Object.UID].Containers) == 0 && !r.First && !slices.ContainsFunc(of, func(l group) bool { return isLifted(r, l) }) {
			for i := range of {
				of[i].resizing = true
			}
		}
		first = end
	}
	return all
}

// isLifted reports whether a cgroup has no quota and is to have one: its pod had exclusive CPUs.
func isLifted(r *groups.Round, l group) bool {
	return l.Want.Quota != bandwidth.Unlimited && r.Settings[l.Path].Quota == bandwidth.Unlimited
}

// Input adds the annotations that the plan follows, and the quotas above limits.
func (c *Controller) Input(r *groups.Round, s *nodeplan.State) {
	for i := range s.Pods {
		pod, of := &s.Pods[i], &r.Pods[i]
		a := c.followed(r, of)
		pod.Class, pod.Period, pod.Burst = a.Class, a.Period, a.Burst
		if !a.allocated {
			pod.Claim = of.Plan.Claim
		}
		for j := range pod.Containers {
			path := r.Container[nodeplan.Ref{Pod: pod.ID, Container: pod.Containers[j].Name}]
			pod.Containers[j].Raised = c.quotaAbove(r.Groups, path, cmp.Or(pod.Period, r.Period))
		}
	}
}

// Decide adds the settings to write, the cgroups that are newly left to other programs, and those whose
// quota is raised.
func (c *Controller) Decide(r *groups.Round, w *groups.Writes) {
	c.planned = plannedGroups(r)
	w.Left = c.leave(r, r.Changed)
	w.Want(c.write(r, c.planned))
	w.Raised = slices.Collect(maps.Keys(c.raised))
	c.rememberLifted()
}

// Restore adds the settings to write so that all cgroups have the planned ones.
func (c *Controller) Restore(r *groups.Round, w *groups.Writes) {
	clear(c.owned)
	w.Want(c.write(r, plannedGroups(r)))
}

// write returns the changes of quota, period and burst. A pod's quota or period can change only in
// steps that its containers' bandwidth allows. Listing them, with nothing wanted, lets package
// cgroup find these steps.
func (c *Controller) write(r *groups.Round, all []group) map[string]cgroup.Wanted {
	wanted := map[string]cgroup.Wanted{}
	for _, l := range all {
		for _, path := range []string{l.Path, r.Inner[l.Path]} {
			if w := c.changes(r, l, path); r.Exists(path) && w != (cgroup.Wanted{}) {
				wanted[path] = w
			}
		}
	}
	for _, p := range r.View.Pods {
		if w := wanted[p.Path]; w.Quota == nil && w.Period == nil {
			continue
		}
		for _, container := range p.Containers {
			for _, path := range []string{container.Path, r.Inner[container.Path]} {
				if _, listed := wanted[path]; !listed && r.Exists(path) {
					wanted[path] = cgroup.Wanted{}
				}
			}
		}
	}
	return wanted
}

// changes returns what differs from the plan in a cgroup that is the planned one, or in it. A group
// in it without a quota is bounded by the planned one.
func (c *Controller) changes(r *groups.Round, l group, path string) cgroup.Wanted {
	if l.resizing {
		return c.prepareResize(r.Settings[path], l)
	}
	if c.leavesTo(l.Path) || path != l.Path && r.Settings[path].Quota == bandwidth.Unlimited {
		return cgroup.Wanted{}
	}
	want := l.Want.Limits
	if want.Quota == bandwidth.Unlimited && l.Kubelet.Quota > 0 && r.RunsElsewhere(l.Planned) {
		want = l.Kubelet
	}
	return groups.LimitChanges(r.Settings[path], want)
}

// prepareResize undoes what would make the kernel reject the quota that the kubelet is about to
// write: a burst above that quota, which is for the kubelet's period, and a raised quota of a
// container, which its pod's quota must not be below.
func (c *Controller) prepareResize(present cgroup.Settings, l group) (w cgroup.Wanted) {
	if most := min(l.Want.Burst, max(0, l.Kubelet.Quota)); most < present.Burst {
		w.Burst = &most
	}
	if before, ok := c.lifted[l.Path]; ok && present.Quota == before.quota {
		w.Quota = &before.base
	}
	return w
}

// rememberLifted remembers the raised quotas of the plan, and during a resize those before it.
func (c *Controller) rememberLifted() {
	lifted := map[string]lift{}
	for _, l := range c.planned {
		if before, ok := c.lifted[l.Path]; ok && l.resizing {
			lifted[l.Path] = before
		} else if !l.resizing && l.Want.Quota > l.Raising.Base.Quota {
			lifted[l.Path] = lift{l.Want.Quota, l.Raising.Base.Quota}
		}
	}
	c.lifted = lifted
}

// Applied records a round's writes, and the bandwidth after them. Each write of a bandwidth file
// refills the kernel's bucket. Rejected writes are counted as well.
func (c *Controller) Applied(r *groups.Round, o *groups.Outcome) {
	for _, w := range o.Written {
		if isBandwidthFile(w.File) {
			c.writes[w.Path]++
		}
	}
	for path, err := range o.Failed {
		var rejected *cgroup.WriteError
		if errors.As(err, &rejected) && isBandwidthFile(rejected.File) {
			c.writes[path]++
		}
	}
	maps.DeleteFunc(c.writes, func(path string, _ int) bool { return !r.Exists(path) })
	c.updateBudgets(r)
}

// Written records that another program has written a bandwidth file of a cgroup.
func (c *Controller) Written(path string) { c.writes[path]++ }

func isBandwidthFile(f cgroup.File) bool {
	switch f {
	case cgroup.CPUMax, cgroup.CPUMaxBurst, cgroup.CPUCFSQuota, cgroup.CPUCFSPeriod, cgroup.CPUCFSBurst:
		return true
	}
	return false
}
