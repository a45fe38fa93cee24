package control

import (
	"errors"
	"time"

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

// Raise is a quota above the limit.
type Raise struct {
	Quota time.Duration
	Since time.Time
}

// QuotaChange is the decision to raise a container's quota, or to lower a raised one.
type QuotaChange struct {
	Container Limited
	Raised    bool // false: lowered
	Quota     time.Duration
	Reason    burst.Reason
}

// mayRaise reports whether the policy allows to raise a container's quota and no other program owns
// the quota of the container or its pod.
func (c *Control) mayRaise(l *Limited) bool {
	_, foreign := c.foreignOwned[l.Path]
	_, foreignPod := c.foreignOwned[l.podPath]
	return l.Policy.Mode != "" && !l.isPod() && !foreign && !foreignPod && c.exists(l.Path)
}

// raisedQuota returns the quota of a container that is above its limit, in the given period, or 0.
// The quota of a cgroup that another program owns counts too: the pod's quota must not be below it.
func (c *Control) raisedQuota(path string, period time.Duration) time.Duration {
	if _, foreign := c.foreignOwned[path]; foreign {
		present := c.view.Settings[path]
		if present.Period == 0 { // it has ended
			return 0
		}
		return time.Duration(present.Quota.Microseconds()*period.Microseconds()/present.Period.Microseconds()) * time.Microsecond
	}
	return c.raised[path].Quota
}

// Tick decides about raised quotas and about batch pods.
func (c *Control) Tick(t Tick) (done Ticked) {
	if c.hold() != "" {
		return done
	}
	if t.Last {
		done.Write = len(c.raised) > 0
		c.raised = map[string]Raise{}
		return done
	}
	if t.Colocation != nil && c.batch != nil {
		done.Write = c.suppress(*t.Colocation)
	}
	done.Batch = c.batched
	for path, present := range t.Present {
		done.Write = c.observeBandwidth(path, present) || done.Write
	}
	var raised bool
	done.Changes, raised = c.raise(t)
	done.Write = done.Write || raised
	return done
}

// observeBandwidth records the present bandwidth settings of one cgroup, and reports whether
// another writer has changed them.
func (c *Control) observeBandwidth(path string, now cgroup.Settings) (changed bool) {
	present, ok := c.view.Settings[path]
	before, known := c.expected[path]
	if !ok || !known {
		return false
	}
	present.Limits = now.Limits
	c.view.Settings[path] = present
	count := len(c.changed)
	c.compare(path, before, present)
	return len(c.changed) > count
}

// raise decides which quotas to raise, and by how much. It returns the changes, and whether there
// is anything to write.
func (c *Control) raise(t Tick) (changes []QuotaChange, write bool) {
	input, containers := c.burstTick(t)
	c.decisions = c.burst.Step(&input, c.decisions[:0])
	raised := make(map[string]Raise, len(c.raised))
	for i, d := range c.decisions {
		path := containers[i].Path
		before := c.raised[path]
		write = write || d.Write
		if d.Raised {
			since := before.Since
			if before.Quota == 0 {
				since = t.Wall
			}
			raised[path] = Raise{d.Quota, since}
		}
		if now := raised[path].Quota; now != before.Quota {
			changes = append(changes, QuotaChange{*containers[i], now > before.Quota, d.Quota, d.Reason})
			write = true
		}
	}
	write = write || len(raised) < len(c.raised) // some have ended or belong to another program
	c.raised = raised
	clear(c.writes)
	return changes, write
}

// burstTick returns the input of package burst, and the containers in the same order.
func (c *Control) burstTick(t Tick) (burst.Tick, []*Limited) {
	input := burst.Tick{Now: t.Now, Interval: t.Interval, Idle: t.Idle, Batch: t.Behind, BatchCPUs: c.sharedCPUs()}
	var containers []*Limited
	for i := range c.limited {
		l := &c.limited[i]
		if !c.mayRaise(l) {
			continue
		}
		container := burst.Container{
			ID:      l.Path,
			Base:    l.Base,
			Policy:  l.Policy,
			Present: c.view.Settings[l.Path].Limits,
			Writes:  c.writes[l.Path],
			Sample:  t.Samples[l.Path],
			CPUs:    c.held(l.Path),
		}
		if l.resizing { // the limit is about to change, which ends the raise
			container.Policy.Mode = burst.None
		}
		input.Containers = append(input.Containers, container)
		containers = append(containers, l)
	}
	return input, containers
}

// countWrites counts a round's writes to bandwidth files, by path, until the next tick. Each
// refills the kernel's bucket. Rejected writes are counted as well.
func (c *Control) countWrites(r Result) {
	for _, w := range r.Written {
		if isBandwidthFile(w.File) {
			c.writes[w.Path]++
		}
	}
	for path, err := range r.Failed {
		var rejected *cgroup.WriteError
		if errors.As(err, &rejected) && isBandwidthFile(rejected.File) {
			c.writes[path]++
		}
	}
}

func isBandwidthFile(f cgroup.File) bool {
	switch f {
	case cgroup.CPUMax, cgroup.CPUMaxBurst, cgroup.CPUCFSQuota, cgroup.CPUCFSPeriod, cgroup.CPUCFSBurst:
		return true
	}
	return false
}
