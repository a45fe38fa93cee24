package quota

import (
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

// MayRaise reports whether the policy allows to raise a container's quota and no other program owns
// the quota of the container or its pod.
func (c *Controller) MayRaise(g *groups.Groups, l *groups.Planned) bool {
	return l.Raising.Policy.Mode != "" && !l.IsPod() && !c.leavesTo(l.Path) && !c.leavesTo(l.PodPath) && g.Exists(l.Path)
}

// Raise returns the raised quota of a container, or the zero value.
func (c *Controller) Raise(path string) Raise { return c.raised[path] }

// quotaAbove returns the quota of a container that is above its limit, in the given period, or 0.
// The quota of a cgroup that another program owns counts too: the pod's quota must not be below it.
func (c *Controller) quotaAbove(g *groups.Groups, path string, period time.Duration) time.Duration {
	if c.leavesTo(path) {
		present := g.Settings[path]
		if present.Period == 0 { // it has ended
			return 0
		}
		return time.Duration(present.Quota.Microseconds()*period.Microseconds()/present.Period.Microseconds()) * time.Microsecond
	}
	return c.raised[path].Quota
}

// Tick decides which quotas to raise, and by how much. The last one ends all raises.
func (c *Controller) Tick(r *groups.Round, in *groups.Tick, done *groups.Ticked) {
	if in.Last {
		done.Write = done.Write || len(c.raised) > 0
		c.raised = map[string]Raise{}
		return
	}
	t := burst.Tick{Now: in.Now, Interval: in.Interval, Idle: in.Idle, Batch: in.Behind, BatchCPUs: r.SharedCPUs()}
	containers := c.addContainers(r.Groups, &t, in.Samples)
	c.decisions = c.burst.Step(&t, c.decisions[:0])
	write := false
	raised := make(map[string]Raise, len(c.raised))
	for i, d := range c.decisions {
		path := containers[i].Path
		before := c.raised[path]
		write = write || d.Write
		if d.Raised {
			since := before.Since
			if before.Quota == 0 {
				since = in.Wall
			}
			raised[path] = Raise{d.Quota, since}
		}
		if now := raised[path].Quota; now != before.Quota {
			done.Changes = append(done.Changes, groups.QuotaChange{Planned: containers[i], Raised: now > before.Quota, Quota: d.Quota, Reason: d.Reason})
			write = true
		}
	}
	done.Write = done.Write || write || len(raised) < len(c.raised) // some have ended or belong to another program
	c.raised = raised
	clear(c.writes)
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
