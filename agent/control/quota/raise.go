package quota

import (
	"maps"
	"slices"
	"time"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/trace"
)

// Raise is a quota above the limit.
type Raise struct {
	Quota time.Duration
	Since time.Time
}

// Change is the decision to raise a container's quota, or to lower a raised one.
type Change struct {
	*groups.Planned
	Raised bool // false: lowered
	Quota  time.Duration
	Reason burst.Reason
}

// MayRaise reports whether the policy allows to raise a container's quota and no other program owns
// the quota of the container or its pod.
func (c *Controller) MayRaise(g *groups.Groups, l *groups.Planned) bool {
	return l.Raising.Policy.Mode != "" && !l.IsPod() && !c.leavesTo(l.Path) && !c.leavesTo(l.PodPath) && g.Exists(l.Path)
}

// Raise returns the raised quota of a container, or the zero value.
func (c *Controller) Raise(path string) Raise { return c.raised[path] }

// Raised returns the paths of the containers whose quota is raised.
func (c *Controller) Raised() []string { return slices.Collect(maps.Keys(c.raised)) }

// QuotaAbove returns the quota of a container that is above its limit, in the given period, or 0.
// The quota of a cgroup that another program owns counts too: the pod's quota must not be below it.
func (c *Controller) QuotaAbove(g *groups.Groups, path string, period time.Duration) time.Duration {
	if c.leavesTo(path) {
		present := g.Settings[path]
		if present.Period == 0 { // it has ended
			return 0
		}
		return time.Duration(present.Quota.Microseconds()*period.Microseconds()/present.Period.Microseconds()) * time.Microsecond
	}
	return c.raised[path].Quota
}

// LowerAll ends all raises, and reports whether there were any.
func (c *Controller) LowerAll() (write bool) {
	write = len(c.raised) > 0
	c.raised = map[string]Raise{}
	return write
}

// Tick decides which quotas to raise, and by how much. It returns the changes, and whether anything
// must be written. The containers are added to the tick; wall is its time of day.
func (c *Controller) Tick(g *groups.Groups, t burst.Tick, wall time.Time, samples map[string]trace.Sample) (changes []Change, write bool) {
	containers := c.addContainers(g, &t, samples)
	c.decisions = c.burst.Step(&t, c.decisions[:0])
	raised := make(map[string]Raise, len(c.raised))
	for i, d := range c.decisions {
		path := containers[i].Path
		before := c.raised[path]
		write = write || d.Write
		if d.Raised {
			since := before.Since
			if before.Quota == 0 {
				since = wall
			}
			raised[path] = Raise{d.Quota, since}
		}
		if now := raised[path].Quota; now != before.Quota {
			changes = append(changes, Change{containers[i], now > before.Quota, d.Quota, d.Reason})
			write = true
		}
	}
	write = write || len(raised) < len(c.raised) // some have ended or belong to another program
	c.raised = raised
	clear(c.writes)
	return changes, write
}

// addContainers adds the containers whose quota may be raised, and returns them in the same order.
func (c *Controller) addContainers(g *groups.Groups, t *burst.Tick, samples map[string]trace.Sample) (containers []*groups.Planned) {
	for _, l := range c.planned {
		if !c.MayRaise(g, l.Planned) {
			continue
		}
		container := burst.Container{
			ID:      l.Path,
			Base:    l.Raising.Base,
			Policy:  l.Raising.Policy,
			Present: g.Settings[l.Path].Limits,
			Writes:  c.writes[l.Path],
			Sample:  samples[l.Path],
			CPUs:    g.Held(l.Path),
		}
		if l.resizing { // the limit is about to change, which ends the raise
			container.Policy.Mode = burst.None
		}
		t.Containers = append(t.Containers, container)
		containers = append(containers, l.Planned)
	}
	return containers
}
