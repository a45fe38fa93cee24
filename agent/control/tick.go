package control

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Tick is one observation of containers and CPUs over a short interval.
type Tick struct {
	// Now is monotonic time since an arbitrary origin. Wall is the time of day.
	Now  time.Duration
	Wall time.Time
	// Idle is how long each CPU was idle within Interval, by CPU number. Behind is how much CPU time
	// the groups of [Raises.Behind] used in it.
	Interval time.Duration
	Idle     []time.Duration
	Behind   time.Duration
	// Samples are the containers' usage since the last tick that had a sample of them, by path.
	Samples map[string]trace.Sample
	// Present are the bandwidth settings of the containers whose quota is raised, and of others that
	// may have changed, by path.
	Present map[string]cgroup.Settings
	// Colocation is what batch pods and others have used, if [Batch.Bounded].
	Colocation *colocation.Tick
	// Last is set by an agent that ends and can no longer supervise raised quotas.
	Last bool
}

// Ticked is what follows from a tick.
type Ticked struct {
	// Write is set if something must be written. The caller must then decide.
	Write bool
	// Changes are the quotas that are raised or lowered.
	Changes []QuotaChange
	// Batch is the decision about batch pods, which takes the place of that in the status.
	Batch colocation.Decision
}

// QuotaChange is the decision to raise a container's quota, or to lower a raised one.
type QuotaChange struct {
	Container Limited
	Raised    bool // false: lowered
	Quota     time.Duration
	Reason    burst.Reason
}

// Tick decides about raised quotas and about batch pods.
func (c *Control) Tick(t Tick) (done Ticked) {
	if c.hold() != "" || c.config.Observe {
		return done
	}
	if t.Last {
		done.Write = c.quota.LowerAll()
		return done
	}
	if t.Colocation != nil {
		used := *t.Colocation
		used.CPUs = c.round.SharedCPUs().Len()
		runs := slices.ContainsFunc(c.round.Planned, func(l groups.Planned) bool {
			s := c.Get(l.Ref.Pod)
			return l.IsBatch() && s != nil && s.Object.Status.Phase == corev1.PodRunning
		})
		done.Write = c.batch.Tick(c.round.Groups, used, runs)
	}
	done.Batch = c.batch.Decision
	for path, present := range t.Present {
		done.Write = c.observeBandwidth(path, present) || done.Write
	}
	changes, raised := c.quota.Tick(c.round.Groups, burst.Tick{Now: t.Now, Interval: t.Interval, Idle: t.Idle, Batch: t.Behind,
		BatchCPUs: c.round.SharedCPUs()}, t.Wall, t.Samples)
	for _, change := range changes {
		done.Changes = append(done.Changes, QuotaChange{limited(change.Planned), change.Raised, change.Quota, change.Reason})
	}
	done.Write = done.Write || raised
	return done
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
