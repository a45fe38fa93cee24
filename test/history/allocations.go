package history

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
)

// applyAllocations applies what a node's agent has published. All of it is for different CPUs, also what
// pods have that the API server has no longer. A pod may be missing for a moment, after the agent has
// lost what it had saved.
func (c *checker) applyAllocations(name string, n *node, published api.Allocations) {
	before := n.allocated
	n.allocated, n.published = map[types.UID]cpuset.Set{}, published
	n.publications++
	var all cpuset.Set
	for _, uid := range slices.Sorted(maps.Keys(published)) {
		cpus := published[uid].CPUs()
		if twice := cpus.Intersection(all); !twice.IsEmpty() {
			c.violation(Exclusive, "the agent of %s has allocated CPUs %s to two pods, one is %s", name, twice, uid)
		}
		n.allocated[uid], all = cpus, all.Union(cpus)
		p := c.pods[uid]
		if p == nil {
			continue
		}
		if p.keeps && p.allocated != cpus {
			c.violation(Moved, "pod %s had CPUs %s of %s and now has %s", p, p.allocated, name, cpus)
		}
		if _, had := before[uid]; !had {
			p.keeps = true
			c.report.Allocated++
		}
		p.allocated, p.served = cpus, true
		p.shared = min(p.shared, n.sharedRequest(p.Pod))
	}
	c.changed[name] = true
}

// own returns the exclusive CPUs of a pod: those that the agent has allocated, while the pod asks.
func (n *node) own(p *pod) (none cpuset.Set) {
	if asks, _ := api.Asks(p.Pod); asks {
		return n.allocated[p.UID]
	}
	return none
}

// sharedRequest returns what a pod requests of the shared CPUs.
func (n *node) sharedRequest(pod *corev1.Pod) ledger.MilliCPU {
	claim, _, _ := n.published.Claim(pod, nil)
	return claim.SharedRequest
}
