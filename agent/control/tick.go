package control

import (
	"pinfold.dev/pinfold/agent/control/quota"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Tick is one observation of containers and CPUs over a short interval.
type Tick struct {
	quota.Tick
	// Present are the bandwidth settings of the containers whose quota is raised, and of others that
	// may have changed, by path.
	Present map[string]cgroup.Settings
	// Colocation is what batch pods and others have used, if [batch.Status.Bounded].
	Colocation *colocation.Tick
}

// Ticked is what follows from a tick.
type Ticked struct {
	// Write is set if something must be written. The caller must then decide.
	Write bool
	// Changes are the quotas that are raised or lowered.
	Changes []quota.Change
	// Batch is the decision about batch pods, which takes the place of that in the status.
	Batch colocation.Decision
}

// Tick decides about raised quotas and about batch pods.
func (c *Control) Tick(t Tick) (done Ticked) {
	if c.hold() != "" {
		return done
	}
	if t.Last {
		_, done.Write = c.quota.Tick(&c.state, t.Tick)
		return done
	}
	done.Batch, done.Write = c.batch.Tick(&c.state, t.Colocation)
	for path, present := range t.Present {
		done.Write = c.observeBandwidth(path, present) || done.Write
	}
	var write bool
	done.Changes, write = c.quota.Tick(&c.state, t.Tick)
	done.Write = done.Write || write
	return done
}

// observeBandwidth records the present bandwidth settings of one cgroup, and reports whether
// another writer has changed them.
func (c *Control) observeBandwidth(path string, now cgroup.Settings) (changed bool) {
	view := c.state.View
	present, ok := view.Settings[path]
	if !ok || !c.watch.Expects(path) {
		return false
	}
	present.Limits = now.Limits
	view.Settings[path] = present
	count := len(c.watch.Changed)
	c.quota.Observed(view, map[string]int{path: c.watch.Observe(path, present, c.online())})
	return len(c.watch.Changed) > count
}
