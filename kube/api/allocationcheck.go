package api

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// Validate returns an error for CPUs and NUMA nodes that the machine does not have. Offline CPUs
// are valid, and still belong to the pod.
func (a Allocation) Validate(m *topology.Machine) error {
	there := m.Online().Union(m.Offline)
	for _, c := range a.Containers {
		if missing := c.CPUs.Difference(there); !missing.IsEmpty() {
			return fmt.Errorf("container %q: node %s has no CPUs %v", c.Name, a.Node, missing)
		}
		if a.Policy != placement.StaticBurst {
			continue
		}
		var cpus cpuset.Set
		for _, id := range c.NUMANodes {
			of := m.CPUsOfNUMA(id)
			if _, known := m.NUMANode(id); !known && of.IsEmpty() {
				return fmt.Errorf("container %q: node %s has no NUMA node %d with CPUs", c.Name, a.Node, id)
			}
			cpus = cpus.Union(of)
		}
		if cpus.IsEmpty() {
			return fmt.Errorf("container %q: node %s has no CPUs online in NUMA nodes %v", c.Name, a.Node, c.NUMANodes)
		}
	}
	return nil
}

// of returns what an allocation gives a container.
func (a Allocation) of(name string) (ContainerAllocation, bool) {
	i := slices.IndexFunc(a.Containers, func(c ContainerAllocation) bool { return c.Name == name })
	if i < 0 {
		return ContainerAllocation{}, false
	}
	return a.Containers[i], true
}

// claims checks an allocation against the pod that it stands on, whose own containers get CPUs, and
// returns what they have been given, in the order of the pod.
func (a Allocation) claims(pod *corev1.Pod, own []ledger.ContainerAsk) ([]ledger.ContainerClaim, error) {
	if a.Node != pod.Spec.NodeName {
		return nil, fmt.Errorf("it is for node %s, but the pod is on node %s", a.Node, pod.Spec.NodeName)
	}
	ask := ledger.Ask{Containers: own}
	for _, c := range a.Containers {
		if slices.ContainsFunc(ask.Containers, func(w ledger.ContainerAsk) bool { return w.Name == c.Name }) {
			continue
		}
		if slices.ContainsFunc(members(pod), func(m member) bool { return m.Name == c.Name }) {
			return nil, fmt.Errorf("container %q: its limits.cpu is not a whole number of CPUs", c.Name)
		}
		return nil, fmt.Errorf("container %q: the pod has no such container", c.Name)
	}
	claims := make([]ledger.ContainerClaim, 0, len(ask.Containers))
	for _, w := range ask.Containers {
		c, ok := a.of(w.Name)
		if !ok {
			return nil, fmt.Errorf("container %q: it is missing, and its limits.cpu is %d", w.Name, w.CPUs)
		}
		claim := ledger.ContainerClaim{Name: w.Name, Role: w.Role, Policy: a.Policy, Limit: w.CPUs, Request: w.Request, CPUs: c.CPUs}
		if a.Policy == placement.StaticBurst {
			claim.NUMANodes = c.NUMANodes
		} else if n := c.CPUs.Len(); n != w.CPUs {
			return nil, fmt.Errorf("container %q: CPUs %q are %d, and its limits.cpu is %d", w.Name, c.CPUs, n, w.CPUs)
		}
		claims = append(claims, claim)
	}
	return claims, checkTogether(&ask, claims)
}

// checkTogether checks static claims against each other: no CPU for two containers at one time, and
// no more CPUs over time than the pod is entitled to.
func checkTogether(ask *ledger.Ask, claims []ledger.ContainerClaim) error {
	var all cpuset.Set
	for i, c := range claims {
		for _, before := range claims[:i] {
			if both := before.CPUs.Intersection(c.CPUs); !both.IsEmpty() && before.Role.RunsWith(c.Role) {
				return fmt.Errorf("containers %q and %q both have CPUs %v", before.Name, c.Name, both)
			}
		}
		all = all.Union(c.CPUs)
	}
	if n := ask.CPUs(); all.Len() > n {
		return fmt.Errorf("its containers have %d CPUs between them (%v), and the pod is entitled to %d", all.Len(), all, n)
	}
	return nil
}
