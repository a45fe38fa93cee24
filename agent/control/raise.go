package control

import (
	"errors"
	"time"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Tick is what there was to see of containers and CPUs in a short time.
type Tick struct {
	// Now is monotonic; its origin has no meaning. Wall is the time of day.
	Now  time.Duration
	Wall time.Time
	// Idle is how long each CPU was idle in Interval, by number.
	Interval time.Duration
	Idle     []time.Duration
	// Samples are what containers did since the last tick that had a sample of them, by
	// group.
	Samples map[string]trace.Sample
}

// Raise is a quota above the limit.
type Raise struct {
	Quota time.Duration
	Since time.Time
}

// QuotaChange is the decision to raise a container's quota, or to lower a raised one.
type QuotaChange struct {
	Container Limited
	Raised    bool // else lowered
	Quota     time.Duration
	Reason    burst.Reason
}

// Raises reports whether any container's quota may be raised. If not, ticks have no effect.
func (c *Control) Raises() bool {
	for i := range c.limited {
		if c.mayRaise(&c.limited[i]) {
			return true
		}
	}
	return false
}

// mayRaise reports whether a container's quota may be raised, by policy and because it is
// ours.
func (c *Control) mayRaise(l *limited) bool {
	_, others := c.foreignOwned[l.path]
	_, podOthers := c.foreignOwned[l.pod]
	return l.Policy.Mode != "" && !l.isPod() && !others && !podOthers && c.exists(l.path)
}

// quotaDecided is the quota above its limit that a container is to have. What others have
// given it counts as well: its pod must have room for that.
func (c *Control) quotaDecided(path string) time.Duration {
	if _, others := c.foreignOwned[path]; others {
		return c.view.Settings[path].Quota
	}
	return c.raised[path].Quota
}

// RaisedGroups returns the groups of containers whose quota is raised. Pass their present settings
// to Control.See before each tick.
func (c *Control) RaisedGroups() (paths []string) {
	for path := range c.raised {
		paths = append(paths, path)
	}
	return paths
}

// See records the present bandwidth settings of one group, and reports whether another writer has
// changed them. If so, Decide returns the actions.
func (c *Control) See(path string, now cgroup.Settings) (changed bool) {
	if c.view == nil {
		return false
	}
	present, ok := c.view.Settings[path]
	before, known := c.expected[path]
	if !ok || !known {
		return false
	}
	present.Limits = now.Limits
	c.view.Settings[path] = present
	noted := len(c.changed)
	c.compare(path, before, present)
	return len(c.changed) > noted
}

// Raise decides which quotas to raise, and by how much. It returns the changes, and whether there
// is anything to write; if so, Decide returns the actions.
func (c *Control) Raise(t Tick) (changes []QuotaChange, write bool) {
	if c.hold() != "" {
		return nil, false
	}
	input, of := c.burstTick(t)
	c.decisions = c.burst.Step(&input, c.decisions[:0])
	raised := make(map[string]Raise, len(c.raised))
	for i, d := range c.decisions {
		path := of[i].path
		before := c.raised[path]
		write = write || d.Write
		if d.Raised {
			raised[path] = Raise{d.Quota, before.Since}
			if before.Quota == 0 {
				raised[path] = Raise{d.Quota, t.Wall}
			}
		}
		if now := raised[path].Quota; now != before.Quota {
			changes = append(changes, QuotaChange{of[i].public(), now > before.Quota, d.Quota, d.Reason})
			write = true
		}
	}
	write = write || len(raised) < len(c.raised) // some have gone, or are not ours any more
	c.raised = raised
	clear(c.writes)
	return changes, write
}

// Lower reverts all raises, for an agent that ends and can no longer supervise them. It reports
// whether there is anything to write.
func (c *Control) Lower() (write bool) {
	write = len(c.raised) > 0
	c.raised = map[string]Raise{}
	return write
}

// burstTick is the tick of those whose quota may be raised.
func (c *Control) burstTick(t Tick) (burst.Tick, []*limited) {
	input := burst.Tick{Now: t.Now, Interval: t.Interval, Idle: t.Idle}
	var of []*limited
	for i := range c.limited {
		l := &c.limited[i]
		if !c.mayRaise(l) {
			continue
		}
		container := burst.Container{
			ID:      l.path,
			Base:    l.Base,
			Policy:  l.Policy,
			Present: c.view.Settings[l.path].Limits,
			Writes:  c.writes[l.path],
			Sample:  t.Samples[l.path],
			CPUs:    c.held(l.path),
		}
		if l.resizes { // its limit is about to change: the raise ends
			container.Policy.Mode = burst.None
		}
		input.Containers = append(input.Containers, container)
		of = append(of, l)
	}
	return input, of
}

// charge counts the writes of bandwidth of a round, by group, for the next tick: each of
// them fills the kernel's bucket. One that was refused counts as well.
func (c *Control) charge(r Result) {
	for _, w := range r.Written {
		if ofBandwidth(w.File) {
			c.writes[w.Path]++
		}
	}
	for path, err := range r.Failed {
		var refused *cgroup.WriteError
		if errors.As(err, &refused) && ofBandwidth(refused.File) {
			c.writes[path]++
		}
	}
}

func ofBandwidth(f cgroup.File) bool {
	switch f {
	case cgroup.CPUMax, cgroup.CPUMaxBurst, cgroup.CPUCFSQuota, cgroup.CPUCFSPeriod, cgroup.CPUCFSBurst:
		return true
	}
	return false
}
