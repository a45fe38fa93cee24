package survey

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// allocations adds the CPUs of a node and the containers that have some, as the node's agent has
// published them, and what is wrong with that. object is nil if nodes could not be read.
func (a *assembly) allocations(n *status.Node, object *corev1.Node, topology *Topology) {
	machine := topology.Index.Machine()
	n.Pods, n.CPUs = new(int), &status.CPUs{Online: len(machine.CPUs), Offline: machine.Offline.Len()}
	var exclusive cpuset.Set
	var requests ledger.MilliCPU
	if object != nil {
		requests = topology.State.Reserved(object)
	}
	for _, pod := range a.podsOn[n.Name] {
		claim := a.claim(n, pod, topology)
		a.checkCPUs(n, pod, &claim, exclusive, machine)
		own, confined := addContainers(n, pod, &claim)
		exclusive, requests = exclusive.Union(own), requests+claim.SharedRequest+confined
	}
	shared := machine.Balanced().Difference(exclusive)
	n.CPUs.Exclusive, n.CPUs.Shared = exclusive.Intersection(machine.Online()).Len(), shared.Len()
	n.CPUs.Reserved, n.CPUs.SharedRequests = n.Reserved.Intersection(shared).Len(), requests.CPUs()
	if have := ledger.MilliCPU(shared.Len()) * 1000; requests > have {
		a.add(status.Problem{Kind: status.CPUOverflow, Node: n.Name, Message: ledger.Overflow{Rule: ledger.RuleRequests, Need: requests, Have: have}.String(),
			Action: "move pods away from the node, those first that the Pinfold scheduler did not place: spec.nodeName, static pods, other schedulers, resizes"})
	}
	for i := range n.Containers {
		c := &n.Containers[i]
		if c.Policy == placement.StaticBurst {
			c.CPUs = machine.CPUsOfNUMA(c.NUMANodes...).Intersection(shared)
		} else {
			c.NUMANodes = machine.NUMANodesOf(c.CPUs)
		}
		c.Quality = topology.Index.Quality(c.CPUs)
	}
}

// claim returns what is published about a pod. It adds the pod if that is nothing although the pod
// asks, or nothing that the node has.
func (a *assembly) claim(n *status.Node, pod *corev1.Pod, topology *Topology) ledger.Claim {
	claim, allocation, err := topology.State.Allocations.Claim(pod, topology.Index.Machine())
	asks, _ := api.Asks(pod)
	switch {
	case err != nil:
		a.ofPod(n, pod, status.InvalidAllocation, fmt.Sprintf("pod %s: %v", nameOf(pod), err), placeAgain(pod), "delete")
	case !asks || allocation != nil || n.Agent.State.Away(): // an agent that is away is a problem of its own
	case slices.ContainsFunc(topology.State.Findings, func(f nodetopology.Finding) bool { return f.Pod == pod.UID && f.Reason == string(status.NotAllocated) }):
		// the agent says why
	case a.Time.Sub(placedAt(pod)) >= startTime:
		a.ofPod(n, pod, status.NotAllocated, fmt.Sprintf("pod %s asks for CPUs of its own, and the node's agent has allocated none to it", nameOf(pod)),
			"its events say why", "describe")
	}
	return claim
}

// placedAt returns when a pod came to its node, as far as is known.
func placedAt(pod *corev1.Pod) time.Time {
	if bound := api.BoundAt(pod); bound != math.MaxInt64 {
		return time.Unix(0, bound)
	}
	return pod.CreationTimestamp.Time
}

// placeAgain says how a pod gets other CPUs.
func placeAgain(pod *corev1.Pod) string {
	if isStatic(pod) {
		return "move the file of this static pod out of the kubelet's directory, and back when the pod has ended"
	}
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return "delete the pod, and its " + owner.Kind + " creates another one"
	}
	return "delete the pod, and create it again from its manifest"
}

// isStatic reports whether a pod is one of the kubelet's files. To delete it at the API server ends nothing.
func isStatic(pod *corev1.Pod) bool { return pod.Annotations[corev1.MirrorPodAnnotationKey] != "" }

// ofPod adds what is wrong with the CPUs of a pod, and the command of kubectl that helps.
func (a *assembly) ofPod(n *status.Node, pod *corev1.Pod, kind status.Kind, message, action, command string) {
	if command == "delete" && isStatic(pod) {
		a.add(status.Problem{Kind: kind, Node: n.Name, Pod: nameOf(pod), Message: message, Action: action})
		return
	}
	a.add(status.Problem{Kind: kind, Node: n.Name, Pod: nameOf(pod), Message: message, Action: action,
		Command: fmt.Sprintf("kubectl -n %s %s pod %s", pod.Namespace, command, pod.Name)})
}

// checkCPUs adds the containers of a pod that have CPUs which another container has at the same time,
// or which are offline. taken are the CPUs of the pods in n.Containers.
func (a *assembly) checkCPUs(n *status.Node, pod *corev1.Pod, claim *ledger.Claim, taken cpuset.Set, machine *topology.Machine) {
	var earlier ledger.InUse
	for i := range claim.Containers {
		c := &claim.Containers[i]
		if both := taken.Union(earlier.With(c.Role)).Intersection(c.CPUs); !both.IsEmpty() {
			a.ofPod(n, pod, status.CPUConflict, fmt.Sprintf("container %q of pod %s and %s have the same %s %s",
				c.Name, nameOf(pod), holder(n, both), quantity.Plural(both.Len(), "CPU"), both), placeAgain(pod), "delete")
		}
		earlier.Add(c.Role, c.CPUs)
		if offline := c.CPUs.Intersection(machine.Offline); !offline.IsEmpty() {
			found := ledger.Offline{Pod: claim.ID, Container: c.Name, CPUs: offline, Left: c.CPUs.Difference(offline)}
			a.ofPod(n, pod, status.CPUOffline, found.Describe(func(ledger.PodID) string { return nameOf(pod) }),
				"bring the CPUs online and let pods use them again, or "+placeAgain(pod), "delete")
		}
	}
}

// holder names the container that has some of the CPUs.
func holder(n *status.Node, cpus cpuset.Set) string {
	for i := range n.Containers {
		if c := &n.Containers[i]; c.CPUs.Intersects(cpus) {
			return fmt.Sprintf("container %q of pod %s", c.Container, c.Pod)
		}
	}
	return "another container of the pod"
}

// addContainers adds the containers of a pod that have exclusive CPUs or are confined. It returns
// these CPUs, and what the pod requests where it is confined.
func addContainers(n *status.Node, pod *corev1.Pod, claim *ledger.Claim) (exclusive cpuset.Set, requests ledger.MilliCPU) {
	add := func(c *ledger.ContainerClaim) {
		n.Containers = append(n.Containers, status.Container{Pod: nameOf(pod), Container: c.Name, Policy: c.Policy, Limit: c.Limit,
			CPUs: c.CPUs, NUMANodes: c.NUMANodes})
	}
	var limits ledger.Phases[int]
	var confined ledger.Phases[ledger.MilliCPU]
	for i := range claim.Containers {
		if c := &claim.Containers[i]; c.Policy == placement.StaticBurst {
			limits.Add(c.Role, c.Limit)
			confined.Add(c.Role, c.Request)
			add(c)
		}
	}
	for _, c := range claim.Portions() {
		exclusive = exclusive.Union(c.CPUs)
		if !c.CPUs.IsEmpty() {
			add(&c)
		}
	}
	if len(claim.Containers) > 0 {
		*n.Pods++
	}
	n.CPUs.Confined += limits.Largest()
	return exclusive, confined.Largest()
}
