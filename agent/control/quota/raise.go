package quota

import (
	"errors"
	"maps"
	"time"

	"pinfold.dev/pinfold/agent/control/node"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
)

// Tick is one observation of containers and CPUs over a short interval.
type Tick struct {
	// Now is monotonic time since an arbitrary origin. Wall is the time of day.
	Now  time.Duration
	Wall time.Time
	// Idle is how long each CPU was idle within Interval, by CPU number. Behind is how much CPU time
	// the groups of pods that run behind all others used in it.
	Interval time.Duration
	Idle     []time.Duration
	Behind   time.Duration
	// Samples are the containers' usage since the last tick that had a sample of them, by path.
	Samples map[string]trace.Sample
	// Last is set by an agent that ends and can no longer supervise raised quotas.
	Last bool
}

// Change is the decision to raise a container's quota, or to lower a raised one.
type Change struct {
	Container node.Limited
	Raised    bool // false: lowered
	Quota     time.Duration
	Reason    burst.Reason
}

// mayRaise reports whether the policy allows to raise a container's quota and no other program owns
// the quota of the container or its pod.
func (c *Controller) mayRaise(s *node.State, l *node.Limited) bool {
	_, foreign := c.foreign[l.Path]
	_, foreignPod := c.foreign[l.PodPath]
	return l.Policy.Mode != "" && !l.IsPod() && !foreign && !foreignPod && s.View.Exists(l.Path)
}

// Raised returns the quota of a container that is above its limit, in the given period, or 0.
// The quota of a cgroup that another program owns counts too: the pod's quota must not be below it.
func (c *Controller) Raised(view *node.View, path string, period time.Duration) time.Duration {
	if _, foreign := c.foreign[path]; foreign {
		present := view.Settings[path]
		if present.Period == 0 { // it has ended
			return 0
		}
		return time.Duration(present.Quota.Microseconds()*period.Microseconds()/present.Period.Microseconds()) * time.Microsecond
	}
	return c.raised[path].Quota
}

// Tick decides which quotas to raise, and by how much. It returns the changes, and whether there is
// anything to write.
func (c *Controller) Tick(s *node.State, t Tick) (changes []Change, write bool) {
	if t.Last {
		write = len(c.raised) > 0
		c.raised = map[string]node.Raise{}
		return nil, write
	}
	input, containers := c.burstTick(s, t)
	c.decisions = c.burst.Step(&input, c.decisions[:0])
	raised := make(map[string]node.Raise, len(c.raised))
	for i, d := range c.decisions {
		path := containers[i].Path
		before := c.raised[path]
		write = write || d.Write
		if d.Raised {
			since := before.Since
			if before.Quota == 0 {
				since = t.Wall
			}
			raised[path] = node.Raise{Quota: d.Quota, Since: since}
		}
		if now := raised[path].Quota; now != before.Quota {
			changes = append(changes, Change{*containers[i], now > before.Quota, d.Quota, d.Reason})
			write = true
		}
	}
	write = write || len(raised) < len(c.raised) // some have ended or belong to another program
	c.raised = raised
	clear(c.writes)
	return changes, write
}

// burstTick returns the input of package burst, and the containers in the same order.
func (c *Controller) burstTick(s *node.State, t Tick) (burst.Tick, []*node.Limited) {
	input := burst.Tick{Now: t.Now, Interval: t.Interval, Idle: t.Idle, Batch: t.Behind, BatchCPUs: s.SharedCPUs()}
	var containers []*node.Limited
	for i := range s.Limited {
		l := &s.Limited[i]
		if !c.mayRaise(s, l) {
			continue
		}
		container := burst.Container{
			ID:      l.Path,
			Base:    l.Base,
			Policy:  l.Policy,
			Present: s.View.Settings[l.Path].Limits,
			Writes:  c.writes[l.Path],
			Sample:  t.Samples[l.Path],
			CPUs:    s.Held(l.Path),
		}
		if l.Resizing { // the limit is about to change, which ends the raise
			container.Policy.Mode = burst.None
		}
		input.Containers = append(input.Containers, container)
		containers = append(containers, l)
	}
	return input, containers
}

// countWrites counts a round's writes to bandwidth files, by path, until the next tick. Each
// refills the kernel's bucket. Rejected writes are counted as well.
func (c *Controller) countWrites(written []cgroup.Write, failed map[string]error) {
	for _, w := range written {
		if Refills(w.File) {
			c.writes[w.Path]++
		}
	}
	for path, err := range failed {
		var rejected *cgroup.WriteError
		if errors.As(err, &rejected) && Refills(rejected.File) {
			c.writes[path]++
		}
	}
}

// Refills reports whether a write to a file refills the kernel's bucket.
func Refills(f cgroup.File) bool {
	switch f {
	case cgroup.CPUMax, cgroup.CPUMaxBurst, cgroup.CPUCFSQuota, cgroup.CPUCFSPeriod, cgroup.CPUCFSBurst:
		return true
	}
	return false
}

// Observed records how often other writers have written to bandwidth files, by path, and forgets
// cgroups that have ended.
func (c *Controller) Observed(view *node.View, foreign map[string]int) {
	maps.DeleteFunc(c.writes, func(path string, _ int) bool { return !view.Exists(path) })
	for path, n := range foreign {
		c.writes[path] += n
	}
}

// Raises are what the next tick must read to decide about raised quotas.
type Raises struct {
	// Possible is set if any quota may be raised. If not, the CPUs' idle time need not be read.
	Possible bool
	// Raised are the paths of the containers whose quota is raised.
	Raised []string
	// Behind are the paths of the pods of QoS class BestEffort that run behind all others. They give
	// way to all others at once, so the time that they use does not prevent raises.
	Behind []string
}

// Status returns the running containers with their bandwidth and raises, and what the next tick must
// read.
func (c *Controller) Status(s *node.State) (containers []node.Limited, raises Raises) {
	for i := range s.Limited {
		l := s.Limited[i]
		if l.IsPod() || !s.View.Exists(l.Path) {
			continue
		}
		l.Present, l.Raise = s.View.Settings[l.Path].Limits, c.raised[l.Path]
		containers = append(containers, l)
		raises.Possible = raises.Possible || c.mayRaise(s, &l)
		if l.Raise.Quota > 0 {
			raises.Raised = append(raises.Raised, l.Path)
		}
	}
	for _, p := range s.View.Pods {
		if p.Tier == nodeplan.BestEffort && node.IsBehind(s.View.Settings[p.Path]) {
			raises.Behind = append(raises.Behind, p.Path)
		}
	}
	return containers, raises
}
