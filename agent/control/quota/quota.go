// Package quota decides about quota, period and burst of pods and containers: which annotations are
// in force, which limits another program owns, and which quotas are raised.
//
//	c.Adopt(state, plan)            // before the plan is made
//	decision := c.Decide(state)     // after it
//	c.Applied(state, written, failed)
//
//	changes, write := c.Tick(state, tick) // ten times a second
package quota

import (
	"maps"
	"slices"
	"time"

	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Owner determines whose quota, period and burst apply when other programs write them too.
type Owner string

// The owners.
const (
	// OwnerPinfold restores the agent's values. It is the default.
	OwnerPinfold Owner = "pinfold"
	// OwnerOther leaves the other program's values until the cgroup ends or its limit changes.
	OwnerOther Owner = "other"
)

// Controller decides about quota, period and burst. Its methods must not be called concurrently.
type Controller struct {
	owner Owner
	// adopted are the annotations that the plan follows. groupUsage is what SetGroupUsage has
	// recorded since the last decision, by path. began is the time of the first decision.
	adopted    map[ledger.PodID]*adopted
	groupUsage map[string]time.Duration
	began      time.Time
	// foreign are the cgroups whose bandwidth is left to another program, with the quota and period
	// of the limit at that time.
	foreign map[string]bandwidth.Limits
	// planned are the cgroups as planned last outside of a resize, by path.
	planned map[string]node.Limited
	// raised are the quotas above limits that were decided, by path. decisions are those of the
	// last tick (kept to reuse the memory). writes counts the writes to bandwidth files since then,
	// by path.
	burst     *burst.Controller
	raised    map[string]node.Raise
	decisions []burst.Decision
	writes    map[string]int
}

// New returns a controller.
func New(owner Owner) *Controller {
	return &Controller{owner: owner, groupUsage: map[string]time.Duration{}, foreign: map[string]bandwidth.Limits{}, burst: burst.New(),
		raised: map[string]node.Raise{}, writes: map[string]int{}}
}

// Decision is what follows from a plan.
type Decision struct {
	// Wanted are the changes of quota, period and burst, by path.
	Wanted map[string]cgroup.Wanted
	// Left are the changes by other writers that are newly left in force.
	Left []node.Foreign
	// Raised are the paths of the containers whose quota is raised, for less than a second.
	Raised []string
}

// Decide returns what follows from a plan.
func (c *Controller) Decide(s *node.State) Decision {
	left := c.leaveForeign(s)
	wanted := c.changes(s)
	c.rememberPlanned(s.Limited)
	return Decision{wanted, left, slices.Collect(maps.Keys(c.raised))}
}

// Restore returns the changes that restore the kubelet's settings. s.Plan is the kubelet's.
func (c *Controller) Restore(s *node.State) Decision {
	clear(c.foreign)
	return Decision{Wanted: c.changes(s)}
}

// changes returns the settings that differ from the plan.
func (c *Controller) changes(s *node.State) map[string]cgroup.Wanted {
	all := map[string]cgroup.Wanted{}
	for i := range s.Limited {
		l := &s.Limited[i]
		present := s.View.Settings[l.Path]
		var w cgroup.Wanted
		if _, foreign := c.foreign[l.Path]; l.Resizing {
			w = c.prepareResize(l, present)
		} else if !foreign {
			w = node.Changes(present, l.Want)
		}
		if w != (cgroup.Wanted{}) {
			all[l.Path] = w
		}
	}
	// A pod's quota or period can change only in steps that its containers' bandwidth allows.
	// Listing them, with nothing wanted, lets package cgroup find these steps.
	for _, p := range s.View.Pods {
		if w := all[p.Path]; w.Quota == nil && w.Period == nil {
			continue
		}
		for _, container := range p.Containers {
			if _, listed := all[container.Path]; !listed && s.View.Exists(container.Path) {
				all[container.Path] = cgroup.Wanted{}
			}
		}
	}
	return all
}

// ForNew returns the quota and period with which a container is to be created, if they differ from
// the kubelet's. Other plugins may then set those of all other containers.
func (c *Controller) ForNew(s *node.State, ref nodeplan.Ref, planned *nodeplan.ContainerSettings) (quota, period time.Duration) {
	// Not a raised quota: the runtime would report it, and the kubelet would take it for the limit.
	l := planned.Base.WithoutBurst()
	switch {
	case l == s.Plan.Kubelet[ref]:
		return 0, 0
	case l.Quota == bandwidth.Unlimited:
		return l.Quota, 0
	}
	return l.Quota, l.Period
}

// prepareResize undoes what would make the kernel reject the quota that the kubelet is about to
// write: a burst above that quota, which is for the kubelet's period, and a raised quota of a
// container, which its pod's quota must not be below.
func (c *Controller) prepareResize(l *node.Limited, present cgroup.Settings) (w cgroup.Wanted) {
	before := c.planned[l.Path]
	if most := min(l.Want.Burst, max(0, l.Kubelet.Quota)); most < present.Burst {
		w.Burst = &most
	}
	if before.Want.Quota > before.Base.Quota && present.Quota == before.Want.Quota { // raised
		w.Quota = &before.Base.Quota
	}
	return w
}

// rememberPlanned remembers the plan of each cgroup, and during a resize the plan before it.
func (c *Controller) rememberPlanned(all []node.Limited) {
	planned := make(map[string]node.Limited, len(all))
	for _, l := range all {
		if before, ok := c.planned[l.Path]; ok && l.Resizing {
			l = before
		}
		planned[l.Path] = l
	}
	c.planned = planned
}
