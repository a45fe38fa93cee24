package allocate

import (
	"slices"

	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
)

// recover gives a pod the CPUs that its containers run on, and reports whether it has them. It does
// so even if more is bound to the node than fits: then pods that are given CPUs later get none.
func (c *Controller) recover(n node, at int) bool {
	s := &n.pods.All[at]
	intent, err := api.Parse(s.Object)
	if err != nil || intent.Ask.Policy == placement.StaticBurst {
		return false
	}
	held, ok := n.held(s, intent.Ask.Containers)
	if !ok || c.put(n, at, api.NewAllocation(c.name, n.books.Machine(), ledger.Decision{Containers: held})) != nil {
		return false
	}
	c.added = c.added[:len(c.added)-1] // it keeps them if they cannot be saved: the kernel shows them to the next agent, too
	n.books.Add(s.Plan.Claim)
	return true
}

// held returns the CPUs that containers run on. It returns false unless each runs on as many as it
// asks for, and all are free and used by no other container but those with all CPUs, which came
// while no agent ran. Init containers may have ended: they get CPUs of the others.
func (n node) held(s *pods.Pod, asks []ledger.ContainerAsk) (held []ledger.ContainerClaim, ok bool) {
	free := n.books.Shared().Difference(n.config.ReservedCPUs)
	for ref, path := range n.Container {
		own := ref.Pod == s.Plan.ID && slices.ContainsFunc(asks, func(a ledger.ContainerAsk) bool { return a.Name == ref.Container })
		if cpus := n.Held(path); !own && n.Exists(path) && cpus != n.Online {
			free = free.Difference(cpus)
		}
	}
	var all cpuset.Set
	for _, ask := range slices.Backward(asks) { // init containers come first
		path := n.Container[nodeplan.Ref{Pod: s.Plan.ID, Container: ask.Name}]
		var cpus cpuset.Set
		switch {
		case n.Exists(path):
			cpus = n.Held(path)
		case ask.Role == ledger.RoleInit:
			cpus = firstOf(all, ask.CPUs)
		}
		if cpus.Len() != ask.CPUs || !cpus.IsSubsetOf(free) {
			return nil, false
		}
		all = all.Union(cpus)
		held = append(held, ledger.ContainerClaim{Name: ask.Name, Policy: placement.Static, CPUs: cpus})
	}
	slices.Reverse(held)
	return held, n.books.Shared().Difference(all).Len() >= n.config.MinShared
}

// firstOf returns the first CPUs of a set, fewer if it has fewer.
func firstOf(set cpuset.Set, most int) (first cpuset.Set) {
	for cpu := range set.All() {
		if first.Len() < most {
			first = first.Union(cpuset.Of(cpu))
		}
	}
	return first
}
