package allocate

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
)

// Resume sets what an earlier agent has allocated, as far as it could be read. It is saved again, because
// not all may be where this agent saves it.
func (c *Controller) Resume(saved map[types.UID]api.Allocation, unreadable error) {
	if unreadable != nil {
		c.damage("%v", unreadable)
	}
	for uid, a := range saved {
		if c.allocated[uid] = a; a.Node != c.name {
			delete(c.allocated, uid)
			c.damage("it is of node %s", a.Node)
		}
	}
	c.changed = len(saved) > 0
}

// Recovered reports whether what was saved has been compared with the kernel.
func (c *Controller) Recovered() bool { return c.recovered }

func (c *Controller) damage(format string, args ...any) {
	if c.damaged == "" {
		c.damaged = fmt.Sprintf("what an agent has saved of pods' CPUs is lost or old (%s): pods keep the CPUs that they run on, others get new ones",
			fmt.Sprintf(format, args...))
	}
}

// recover compares what was saved with the kernel, which shows what the last agent has enforced. Pods
// keep the CPUs on which they run, whatever was saved. Others keep what was saved for them, unless
// one of those runs there.
func (c *Controller) recover(n node) {
	n.books = c.books(n.Round, 0)
	var shown cpuset.Set
	var rest []int
	all := c.byRank(n.Round)
	slices.SortStableFunc(all, func(x, y int) int { return n.quotas(x) - n.quotas(y) })
	for _, at := range all {
		s := &n.Pods[at]
		saved, had := c.allocated[s.Object.UID]
		switch {
		case had && n.shows(s, saved):
		case c.adopt(n, at):
			if now := c.allocated[s.Object.UID]; had {
				c.damage("pod %s runs on CPUs %s, not on %s", s.Name(), now.CPUs(), saved.CPUs())
			}
		default:
			rest = append(rest, at)
			continue
		}
		shown = shown.Union(c.allocated[s.Object.UID].CPUs())
	}
	for _, at := range rest {
		s := &n.Pods[at]
		a := c.allocated[s.Object.UID]
		if taken := a.CPUs().Intersection(shown); !taken.IsEmpty() {
			c.lose(s, a, fmt.Errorf("other pods run on CPUs %s", taken))
			delete(c.allocated, s.Object.UID)
			c.read(n.Round, s)
			c.damage("CPUs %s were saved for pod %s, and others run there", taken, s.Name())
		}
	}
}

// quotas returns 0 for a pod of which a container runs without a quota, else 1. The agent removes those
// of containers with CPUs of their own; others may run on as many shared CPUs as they ask for.
func (n node) quotas(at int) int {
	for _, c := range n.Pods[at].Plan.Containers {
		path := n.Container[nodeplan.Ref{Pod: n.Pods[at].Plan.ID, Container: c.Name}]
		if n.Exists(path) && n.Settings[path].Quota == bandwidth.Unlimited {
			return 0
		}
	}
	return 1
}

// loss is why a pod has lost CPUs, and whether its author was told.
type loss struct {
	why  string
	told bool
}

// lose records that a pod has lost its CPUs.
func (c *Controller) lose(s *pods.Pod, a api.Allocation, why error) {
	if len(a.Claims) > 0 {
		c.lapsed[s.Object.UID] = lapse{fmt.Errorf("it has lost the CPUs of its resource claims, delete it: %w", why), a.Claims}
	} else if cpus := a.CPUs(); !cpus.IsEmpty() {
		c.losses[s.Object.UID] = loss{why: fmt.Sprintf("it has lost CPUs %s: %v", cpus, why)}
	}
}

// tellLoss tells at least once that a pod has lost CPUs, and again while it asks for some and has none.
func (c *Controller) tellLoss(s *pods.Pod, n *groups.Notices) {
	uid := s.Object.UID
	l, lost := c.losses[uid]
	asks, _ := api.Asks(s.Object)
	if _, has := c.allocated[uid]; l.told && (has || !asks) {
		delete(c.losses, uid)
	} else if lost {
		n.Tell(s, groups.Lost, "%s", l.why)
		c.losses[uid] = loss{l.why, true}
	}
}

// shows reports whether all containers that have CPUs run on them, of those that run.
func (n node) shows(s *pods.Pod, a api.Allocation) (shown bool) {
	for _, c := range a.Containers {
		path := n.Container[nodeplan.Ref{Pod: s.Plan.ID, Container: c.Name}]
		if n.Exists(path) && n.Held(path) != c.CPUs {
			return false
		}
		shown = shown || n.Exists(path)
	}
	return shown
}

// adopt allocates to a pod that asks the CPUs that its containers run on, and reports whether it has
// them. It does so even if more is bound to the node than fits: then pods that come later get none.
func (c *Controller) adopt(n node, at int) bool {
	s := &n.Pods[at]
	intent, err := api.Parse(s.Object)
	if err != nil || !intent.Asks() || intent.Ask.Policy == placement.StaticBurst || s.Departed || api.HasEnded(s.Object) ||
		belongsToOther(s.Object, c.claimants(n.Round)) != nil {
		return false
	}
	held, ok := n.held(s, &intent.Ask)
	if !ok || c.put(n, at, n.allocation(s, func(container string) cpuset.Set { return held[container] })) != nil {
		return false
	}
	n.books.Add(c.claims[s.Object.UID])
	return true
}

// held returns the CPUs on which containers of a pod run, and for those that do not run others that it
// can have. It returns false unless one runs, each on as many as its limit, and all are free and used
// by no other container but those with all CPUs, which came while no agent ran.
func (n node) held(s *pods.Pod, ask *ledger.Ask) (cpus map[string]cpuset.Set, ok bool) {
	free := n.Online.Difference(n.Books.ReservedCPUs)
	for ref, path := range n.Container {
		own := ref.Pod == s.Plan.ID && slices.ContainsFunc(ask.Containers, func(a ledger.ContainerAsk) bool { return a.Name == ref.Container })
		if cpus := n.Held(path); !own && n.Exists(path) && cpus != n.Online {
			free = free.Difference(cpus)
		}
	}
	cpus = map[string]cpuset.Set{}
	var all, inits cpuset.Set
	for _, c := range ask.Containers {
		path := n.Container[nodeplan.Ref{Pod: s.Plan.ID, Container: c.Name}]
		if !n.Exists(path) {
			continue
		}
		cpus[c.Name] = n.Held(path)
		limited := func(k nodeplan.Container) bool { // in force, while a resize waits
			return k.Name == c.Name && k.Limit == ledger.MilliCPU(cpus[c.Name].Len())*1000
		}
		if !slices.ContainsFunc(s.Plan.Containers, limited) || !cpus[c.Name].IsSubsetOf(free) {
			return nil, false
		}
		if all = all.Union(cpus[c.Name]); c.Role == ledger.RoleInit {
			inits = inits.Union(cpus[c.Name])
		}
	}
	if all.IsEmpty() {
		return nil, false
	}
	for _, c := range ask.Containers {
		if !cpus[c.Name].IsEmpty() || c.Role == ledger.RoleInit {
			continue
		}
		own := inits.FirstN(c.CPUs) // which end before it starts
		if inits = inits.Difference(own); own.Len() < c.CPUs {
			rest := ledger.ContainerAsk{Name: c.Name, CPUs: c.CPUs - own.Len()}
			d, err := n.books.Decide(ledger.Ask{FullCores: ask.FullCores, Within: free.Difference(all), Containers: []ledger.ContainerAsk{rest}})
			if err != nil {
				return nil, false
			}
			own = own.Union(d.CPUs)
		}
		cpus[c.Name], all = own, all.Union(own)
	}
	n.addInits(ask, nil, cpus)
	return cpus, n.books.Shared().Difference(all).Len() >= n.Books.MinShared
}

// byRank returns the places of the pods, those first that keep their CPUs.
func (c *Controller) byRank(r *groups.Round) []int {
	all := make([]int, len(r.Pods))
	for i := range all {
		all[i] = i
	}
	slices.SortFunc(all, func(x, y int) int {
		a, b := c.claims[r.Pods[x].Object.UID], c.claims[r.Pods[y].Object.UID]
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
	})
	return all
}
