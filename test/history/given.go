package history

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/kube/api"
)

// applyGiven applies what a node's agent has published. All of it is for different CPUs, also what
// pods have that the API server has no longer. A pod may be missing for a moment, after the agent has
// lost what it had saved.
func (c *checker) applyGiven(name string, n *node, published *api.Given) {
	if published == nil {
		published = &api.Given{}
	}
	before := n.given
	n.given = map[types.UID]cpuset.Set{}
	var all cpuset.Set
	for _, uid := range slices.Sorted(maps.Keys(published.Pods)) {
		var cpus cpuset.Set
		for _, container := range published.Pods[uid].Containers {
			cpus = cpus.Union(container.CPUs)
		}
		if twice := cpus.Intersection(all); !twice.IsEmpty() {
			c.violation(Exclusive, "the agent of %s has given CPUs %s to two pods, one is %s", name, twice, uid)
		}
		n.given[uid], all = cpus, all.Union(cpus)
		p := c.pods[uid]
		if p == nil {
			continue
		}
		if p.keeps && p.given != cpus {
			c.violation(Moved, "pod %s had CPUs %s of %s and now has %s", p, p.given, name, cpus)
		}
		if _, had := before[uid]; !had {
			p.keeps, p.ceased = true, false
			c.report.Given++
		}
		p.given = cpus
	}
	for uid := range before {
		if _, has := n.given[uid]; !has && !published.Allocates && c.pods[uid] != nil {
			c.pods[uid].keeps = false // the next agent may find nothing of what the last one gave
		}
	}
	if n.allocates && !published.Allocates {
		c.handOver(name, n, all)
	}
	n.allocates, n.allocated = published.Allocates, n.allocated || published.Allocates
	c.changed[name] = c.changed[name] || n.allocated
}

// handOver is called when the scheduler allocates again. An earlier allocation loses to what the
// agent has given meanwhile.
func (c *checker) handOver(name string, n *node, given cpuset.Set) {
	for _, p := range c.pods {
		if _, has := n.given[p.UID]; p.Spec.NodeName == name && !has && p.own().Intersects(given) {
			p.origin = bypassed
		}
	}
}

// own returns the exclusive CPUs of a pod: those that the agent has given it, or those of its
// allocation, unless the agent allocates. While the scheduler allocates, a pod that did not ask for
// a time has lost what it was given.
func (n *node) own(p *pod) (none cpuset.Set) {
	cpus, given := n.given[p.UID]
	asks, _ := api.Asks(p.Pod)
	switch {
	case given && asks && (n.allocates || !p.ceased):
		return cpus
	case given || n.allocates || p.origin != scheduled:
		return none
	}
	return p.own()
}
