package demo

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
)

// placed is the placement of one container.
type placed struct {
	name   string // of the pod; POD/CONTAINER if the pod has several containers
	node   string
	policy placement.Policy // "": the pod does not ask for CPUs
	wants  int              // CPUs
	cpus   cpuset.Set       // exclusive or shared
	// own is the quality of the placement, best that of the best placement on the empty machine.
	own, best placement.Quality
}

// placements returns what was allocated to the pods, in their order.
func (v *view) placements(pods []corev1.Pod, allocations api.Allocations) ([]placed, error) {
	exclusive := map[string]cpuset.Set{} // by node
	var all []placed
	for i := range pods {
		pod := &pods[i]
		if v.indexes[pod.Spec.NodeName] == nil {
			return nil, fmt.Errorf("pod %s is on %q, which is not a node of this cluster", pod.Name, pod.Spec.NodeName)
		}
		allocation, allocated := allocations[pod.UID]
		if !allocated {
			all = append(all, placed{name: pod.Name, node: pod.Spec.NodeName})
			continue
		}
		for _, container := range allocation.Containers {
			p := v.placed(pod, allocation.Policy, container)
			if p.policy == placement.Static {
				exclusive[p.node] = exclusive[p.node].Union(p.cpus)
			}
			all = append(all, p)
		}
	}
	for i := range all {
		if err := v.rate(&all[i], exclusive[all[i].node]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (v *view) placed(pod *corev1.Pod, policy placement.Policy, container api.ContainerAllocation) placed {
	p := placed{name: pod.Name, node: pod.Spec.NodeName, policy: policy, cpus: container.CPUs}
	for _, c := range pod.Spec.Containers {
		if c.Name == container.Name {
			p.wants = int(c.Resources.Limits.Cpu().Value())
		}
	}
	if len(pod.Spec.Containers) > 1 {
		p.name += "/" + container.Name
	}
	if policy == placement.StaticBurst {
		for _, id := range container.NUMANodes {
			p.cpus = p.cpus.Union(v.indexes[p.node].Machine().CPUsOfNUMA(id))
		}
	}
	return p
}

// rate completes a placement with its shared CPUs and its quality. exclusive are the exclusive CPUs
// of its node.
func (v *view) rate(p *placed, exclusive cpuset.Set) error {
	index := v.indexes[p.node]
	online := index.Machine().Online()
	switch p.policy {
	case placement.Static:
	case placement.StaticBurst:
		p.cpus = p.cpus.Difference(exclusive)
	default:
		p.cpus = online.Difference(exclusive)
		return nil
	}
	best, err := index.Place(online, placement.Request{CPUs: p.wants, Policy: p.policy})
	if err != nil {
		return fmt.Errorf("pod %s on an empty node %s: %w", p.name, p.node, err)
	}
	p.own, p.best = index.Quality(p.cpus), best.Quality
	return nil
}

// optimal reports whether there is no better placement on the empty machine, by the criteria that
// matter to this container.
func (p placed) optimal() bool {
	if p.policy == placement.StaticBurst {
		return p.own.NUMANodes == p.best.NUMANodes && p.own.Distance == p.best.Distance
	}
	return p.own == p.best
}
