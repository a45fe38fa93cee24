package history

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
)

// checkNode checks the rules about all pods of a node at one revision.
func (c *checker) checkNode(name string) {
	n := c.node(name)
	if c.inGap(Topology, c.revision) {
		return // what the agent has allocated is not known
	}
	var pods []*pod
	for _, p := range c.pods {
		if p.Spec.NodeName == name && !ended(p.Pod) {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *pod) int {
		return cmp.Or(cmp.Compare(a.boundAt, b.boundAt), cmp.Compare(a.UID, b.UID))
	})
	exclusive := c.checkExclusive(name, n, pods)
	if n.machine != nil && !c.inGap(Node, c.revision) && !c.inGap(Topology, c.revision) {
		c.checkAmounts(name, n, pods, exclusive)
	}
}

// checkExclusive checks each CPU of each pod and returns the set of all.
func (c *checker) checkExclusive(name string, n *node, pods []*pod) (all cpuset.Set) {
	holders := map[cpuset.CPU]*pod{}
	for _, p := range pods {
		both := map[*pod]cpuset.Set{}
		for cpu := range n.own(p).All() {
			if holder := holders[cpu]; holder != nil {
				set := both[holder]
				set.Add(cpu)
				both[holder] = set
				continue
			}
			holders[cpu] = p
			if last, had := n.past[cpu]; had && last != p.UID {
				c.report.HandedOver++
			}
			n.past[cpu] = p.UID
			all.Add(cpu)
		}
		for _, holder := range pods {
			if cpus := both[holder]; !cpus.IsEmpty() {
				c.violation(Exclusive, "CPUs %s of %s belong to pod %s (bound at revision %d) and to pod %s (bound at revision %d)",
					cpus, name, holder, holder.boundAt, p, p.boundAt)
			}
		}
	}
	return all
}

// checkAmounts checks the rules that need the node's topology.
func (c *checker) checkAmounts(name string, n *node, pods []*pod, exclusive cpuset.Set) {
	if cpus := exclusive.Intersection(n.reservedCPUs); !cpus.IsEmpty() {
		for _, p := range pods {
			if taken := n.own(p).Intersection(cpus); !taken.IsEmpty() {
				c.violation(Reserved, "pod %s has CPUs %s of %s, which are reserved", p, taken, name)
			}
		}
	}
	shared := n.machine.Online().Difference(exclusive)
	if shared.Len() < c.options.MinSharedCPUs {
		c.violation(MinShared, "%d CPUs of %s are shared, want %d", shared.Len(), name, c.options.MinSharedCPUs)
	}
	if c.options.Leaders || slices.ContainsFunc(pods, func(p *pod) bool { return p.origin != scheduled || !p.unchanged }) {
		return // then sums are the concern of all schedulers and of the kubelet
	}
	sum := ledger.MilliCPU(n.reserved)
	var bursting []confined
	for _, p := range pods {
		sum += p.shared
		for _, one := range confinements(n.machine, p, n.published) {
			sum += one.request
			bursting = append(bursting, one)
		}
	}
	if have := ledger.MilliCPU(shared.Len()) * 1000; sum > have {
		c.violation(Requests, "%s CPUs are reserved on %s or requested of its shared CPUs, which are %s (%s)", sum, name, have, shared)
	}
	c.checkConfined(name, n.machine, shared, bursting)
}

// confined is the use of some NUMA nodes by the static-burst containers of a pod.
type confined struct {
	pod     *pod
	cpus    cpuset.Set
	request ledger.MilliCPU
}

// confinements returns the use of NUMA nodes by a pod. Ordinary init containers run before the
// other containers, so the larger of both counts.
func confinements(m *topology.Machine, p *pod, published api.Allocations) (all []confined) {
	claim, _, _ := published.Claim(p.Pod, nil)
	return confinementsOf(m, p, claim.Containers)
}

func confinementsOf(m *topology.Machine, p *pod, containers []ledger.ContainerClaim) (all []confined) {
	first := map[cpuset.Set]confined{}
	for _, container := range containers {
		if container.Policy != placement.StaticBurst {
			continue
		}
		var cpus cpuset.Set
		for _, id := range container.NUMANodes {
			cpus = cpus.Union(m.CPUsOfNUMA(id))
		}
		i := slices.IndexFunc(all, func(o confined) bool { return o.cpus == cpus })
		if i < 0 {
			i = len(all)
			all = append(all, confined{pod: p, cpus: cpus})
		}
		if container.Role == ledger.RoleInit {
			init := first[cpus]
			first[cpus] = confined{request: max(init.request, container.Request)}
		} else {
			all[i].request += container.Request
		}
	}
	for i := range all {
		init := first[all[i].cpus]
		all[i].request = max(all[i].request, init.request)
	}
	return all
}

// checkConfined checks every union of NUMA nodes.
func (c *checker) checkConfined(name string, m *topology.Machine, shared cpuset.Set, all []confined) {
	for _, one := range all {
		if !one.cpus.Intersects(shared) {
			c.violation(Confined, "pod %s is confined to CPUs %s of %s, of which none is shared", one.pod, one.cpus, name)
		}
	}
	if len(all) == 0 {
		return
	}
	for subset := 1; subset < 1<<len(m.NUMANodes); subset++ {
		var union cpuset.Set
		for i, node := range m.NUMANodes {
			if subset>>i&1 == 1 {
				union = union.Union(m.CPUsOfNUMA(node.ID))
			}
		}
		var sum ledger.MilliCPU
		for _, one := range all {
			if one.cpus.IsSubsetOf(union) {
				sum += one.request
			}
		}
		if have := ledger.MilliCPU(union.Intersection(shared).Len()) * 1000; sum > have {
			c.violation(Confined, "%s CPUs are requested within CPUs %s of %s, of which %s are shared", sum, union, name, have)
		}
	}
}
