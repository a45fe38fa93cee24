package control

import (
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Tick decides about raised quotas and about batch pods. The status has the decision about the latter.
func (c *Control) Tick(t groups.Tick) (done groups.Ticked, s Status) {
	if c.hold() != "" || c.config.Observe {
		return done, c.last
	}
	for path, present := range t.Present {
		done.Write = c.observeBandwidth(path, present) || done.Write
	}
	for _, k := range c.controllers {
		k.Tick(&c.round, &t, &done)
	}
	c.last.Batch.Decision = c.batch.Decision
	return done, c.last
}

// observeBandwidth records the present bandwidth settings of one cgroup, and reports whether
// another writer has changed them.
func (c *Control) observeBandwidth(path string, now cgroup.Settings) (changed bool) {
	present, ok := c.round.Settings[path]
	if _, known := c.watch.expected[path]; !ok || !known {
		return false
	}
	present.Limits = now.Limits
	c.round.Settings[path] = present
	return c.compare(path, present)
}
