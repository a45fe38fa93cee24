package allocate

import (
	"errors"
	"fmt"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
)

// invalid returns why a pod must not keep what it has, or nil.
func (c *Controller) invalid(r *groups.Round, s *pods.Pod, a api.Allocation, lost error) error {
	switch problem := c.problems[s.Object.UID]; {
	case problem != nil:
		return problem
	case lost != nil:
		return lost
	}
	matches := a.Matches(s.Object)
	switch {
	case len(a.Claims) > 0:
		return invalidClaims(s, a, matches)
	case s.MayResize():
		return nil
	case (matches != nil || !withheld(r, s, a.CPUs()).IsEmpty()) && c.isResized(s, a):
		return errResized
	}
	return matches
}

// errResized is why a pod does not keep exactly what it has: it was resized, or an administrator has
// withheld CPUs.
var errResized = errors.New("it was resized")

// isResized reports whether a pod that cannot keep exactly what it has asks for another number of
// CPUs.
func (c *Controller) isResized(s *pods.Pod, a api.Allocation) bool {
	intent, err := api.Parse(s.Object)
	asks := errors.Is(err, api.ErrTooMany) || err == nil && intent.Asks() && intent.Ask.Policy == placement.Static
	return asks && a.Policy == placement.Static && len(a.Claims) == 0 && a.Node == c.name && !s.MayResize()
}

// decisions returns how many decisions pods take that wait: a resize takes some for each container.
func (c *Controller) decisions(r *groups.Round, waiting []int) (all int) {
	for _, at := range waiting {
		all += 1 + 5*len(c.allocated[r.Pods[at].Object.UID].Containers)
	}
	return all
}

// resize allocates to a pod that has CPUs the number that it asks for now, without those that it may not
// use. A container that grows keeps what it has, and one that shrinks keeps a part. With an error the
// pod keeps what it has.
func (c *Controller) resize(n node, at int, ask ledger.Ask) error {
	s := &n.Pods[at]
	had := map[string]cpuset.Set{}
	before := c.allocated[s.Object.UID]
	gone := withheld(n.Round, s, before.CPUs())
	for _, part := range before.Containers {
		had[part.Name] = part.CPUs.Difference(gone)
	}
	var cpus map[string]cpuset.Set
	err := covers(&ask, had)
	if err == nil {
		err = c.withBorrowed(n, s.Object.UID, !api.Covers(&ask), func() error {
			cpus = n.shrink(s, &ask, had)
			return n.grow(s, &ask, cpus)
		})
	}
	if err == nil {
		n.addInits(&ask, had, cpus)
		err = c.put(n, at, n.allocation(s, func(container string) cpuset.Set { return cpus[container] }))
	}
	if err != nil {
		return notGivenError{error: err, keeps: true}
	}
	if !gone.IsEmpty() {
		c.losses[s.Object.UID] = loss{why: fmt.Sprintf("it has lost CPUs %s, which its group may not use any more, and got others", gone)}
	}
	return nil
}

// covers returns an error if a container that is to get more CPUs does not request them: a resize borrows
// none.
func covers(ask *ledger.Ask, had map[string]cpuset.Set) error {
	for _, c := range ask.Containers {
		if c.CPUs > had[c.Name].Len() && c.Request < ledger.MilliCPU(c.CPUs)*1000 {
			return fmt.Errorf("a container that gets more CPUs must request them: container %s requests %v of its %d", c.Name, c.Request, c.CPUs)
		}
	}
	return nil
}

// shrink returns the CPUs that containers keep, except init containers: the best of those that they
// have, if they are to have fewer.
func (n node) shrink(s *pods.Pod, ask *ledger.Ask, had map[string]cpuset.Set) map[string]cpuset.Set {
	n.books.Add(ledger.Claim{ID: ledger.PodID(s.Object.UID)})
	cpus := map[string]cpuset.Set{}
	for _, c := range ask.Containers {
		if c.Role == ledger.RoleInit {
			continue
		}
		cpus[c.Name] = had[c.Name]
		if c.CPUs >= had[c.Name].Len() {
			continue
		}
		part := ledger.Ask{FullCores: ask.FullCores, Within: had[c.Name], Containers: []ledger.ContainerAsk{{Name: c.Name, CPUs: c.CPUs}}}
		if d, err := n.books.Decide(part); err == nil {
			cpus[c.Name] = d.CPUs
		} else { // such as a CPU that is offline
			cpus[c.Name] = had[c.Name].FirstN(c.CPUs)
		}
	}
	return cpus
}

// grow adds the CPUs that containers lack, except init containers, as near as possible.
func (n node) grow(s *pods.Pod, ask *ledger.Ask, cpus map[string]cpuset.Set) error {
	var all cpuset.Set
	for _, c := range ask.Containers {
		if c.Role == ledger.RoleInit {
			continue
		}
		for _, within := range near(n.Index.Machine(), cpus[c.Name]) {
			lacks, last := c.CPUs-cpus[c.Name].Len(), within == n.Online
			if within = allowed(n.Round, s, within); !last {
				lacks = min(lacks, n.books.Shared().Difference(n.Books.ReservedCPUs).Intersection(within).Len())
			}
			if lacks == 0 {
				continue
			}
			claim := n.allocation(s, func(container string) cpuset.Set { return cpus[container] }).ClaimOf(s.Object)
			claim.SharedRequest = ask.SharedRequest
			n.books.Add(claim)
			part := ledger.Ask{FullCores: ask.FullCores, Within: within, Containers: []ledger.ContainerAsk{{Name: c.Name, CPUs: lacks}}}
			d, err := n.books.Decide(part)
			if err != nil && last { // with those that it has, others than whole cores may be whole
				part.FullCores = placement.FullCoresPreferred
				d, err = n.books.Decide(part)
			}
			if err == nil {
				cpus[c.Name] = cpus[c.Name].Union(d.CPUs)
			} else if last {
				return err
			}
		}
		all = all.Union(cpus[c.Name])
	}
	if ask.FullCores == placement.FullCoresRequired && n.Index.Quality(all).SplitCores > 0 {
		return errors.New("with those that it has, the CPUs would not be whole cores")
	}
	return nil
}

// near returns sets of CPUs that are ever farther from those of a container: of the same cores,
// last-level caches, NUMA nodes, and all.
func near(m *topology.Machine, cpus cpuset.Set) []cpuset.Set {
	var cores, caches cpuset.Set
	for _, g := range m.Cores() {
		if g.CPUs.Intersects(cpus) {
			cores = cores.Union(g.CPUs)
		}
	}
	for _, g := range m.LLCs() {
		if g.CPUs.Intersects(cpus) {
			caches = caches.Union(g.CPUs)
		}
	}
	return []cpuset.Set{cores, caches, m.CPUsOfNUMA(m.NUMANodesOf(cpus)...), m.Online()}
}

// addInits gives init containers CPUs of the containers that run after them, and then of their own.
func (n node) addInits(ask *ledger.Ask, had, cpus map[string]cpuset.Set) {
	var others cpuset.Set
	for _, own := range cpus {
		others = others.Union(own)
	}
	var earlier ledger.InUse
	for _, c := range ask.Containers {
		if c.Role == ledger.RoleInit {
			for _, from := range []cpuset.Set{had[c.Name].Intersection(others), others, had[c.Name]} {
				from = from.Difference(earlier.With(c.Role)).Difference(cpus[c.Name])
				cpus[c.Name] = cpus[c.Name].Union(from.FirstN(c.CPUs - cpus[c.Name].Len()))
			}
		}
		earlier.Add(c.Role, cpus[c.Name])
	}
}

// allocation returns the one with which containers have these CPUs.
func (n node) allocation(s *pods.Pod, of func(container string) cpuset.Set) api.Allocation {
	var d ledger.Decision
	for _, container := range s.Plan.Containers {
		if own := of(container.Name); !own.IsEmpty() {
			d.Containers = append(d.Containers, ledger.ContainerClaim{Name: container.Name, Policy: placement.Static, CPUs: own})
		}
	}
	return api.NewAllocation(n.name, n.books.Machine(), d)
}
