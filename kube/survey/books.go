package survey

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/kube/api"
)

// fillBooks adds the CPUs of a node, the containers that have some, and what is wrong with them.
// object is nil if nodes could not be read.
func (a *assembly) fillBooks(n *status.Node, object *corev1.Node, topology *Topology) {
	n.Pods = new(int)
	machine := topology.Index.Machine()
	pods := map[ledger.PodID]*corev1.Pod{}
	var claims []ledger.Claim
	for _, pod := range a.podsOn[n.Name] {
		claim, allocation, err := topology.State.Allocations.Claim(pod, machine)
		if err != nil {
			a.invalid(n, pod, err)
		} else if asks, _ := api.Asks(pod); asks && allocation == nil {
			a.notAllocated(n, pod)
		}
		pods[claim.ID] = pod
		claims = append(claims, claim)
	}
	config := ledger.Config{ReservedCPUs: topology.State.ReservedCPUs}
	if object != nil {
		config.Reserved = api.Reserved(object)
	}
	books := ledger.New(topology.Index, config, claims...)
	n.CPUs = &status.CPUs{
		Online: len(machine.CPUs), Exclusive: books.Exclusive().Len(), Shared: books.Shared().Len(),
		Reserved: topology.State.ReservedCPUs.Intersection(books.Shared()).Len(), Offline: machine.Offline.Len(),
		SharedRequests: float64(books.SharedRequests()) / 1000,
	}
	lost := a.bookProblems(n, books, pods)
	for _, claim := range claims {
		if !lost[claim.ID] {
			n.CPUs.Confined += addContainers(n, pods[claim.ID], claim)
		}
	}
	refine(n, books, topology.Index, pods)
}

// invalid adds a pod whose allocation the node cannot have.
func (a *assembly) invalid(n *status.Node, pod *corev1.Pod, err error) {
	action, command := placeAgain(pod)
	a.add(status.Problem{Kind: status.InvalidAllocation, Node: n.Name, Pod: nameOf(pod), Action: action, Command: command,
		Message: fmt.Sprintf("pod %s: %v", nameOf(pod), err)})
}

// notAllocated adds a pod to which the agent has allocated no CPUs, although it asks.
func (a *assembly) notAllocated(n *status.Node, pod *corev1.Pod) {
	if a.Time.Sub(pod.CreationTimestamp.Time) < startTime || n.Agent.State.Away() {
		return // it starts, or the agent is a problem of its own
	}
	a.add(status.Problem{Kind: status.NotAllocated, Node: n.Name, Pod: nameOf(pod),
		Message: fmt.Sprintf("pod %s asks for CPUs of its own, and the node's agent has allocated none to it", nameOf(pod)),
		Action:  "its events say why", Command: fmt.Sprintf("kubectl -n %s describe pod %s", pod.Namespace, pod.Name)})
}

// bookProblems adds what is wrong in the books of a node, and returns the pods that have lost their
// CPUs.
func (a *assembly) bookProblems(n *status.Node, books *ledger.Books, pods map[ledger.PodID]*corev1.Pod) (lost map[ledger.PodID]bool) {
	podName := func(id ledger.PodID) string { return nameOf(pods[id]) }
	lost = map[ledger.PodID]bool{}
	add := func(p status.Problem, pod *corev1.Pod) {
		if p.Node = n.Name; pod != nil {
			p.Pod = nameOf(pod)
		}
		a.add(p)
	}
	for _, c := range books.Conflicts() {
		lost[c.ID] = true
		action, command := placeAgain(pods[c.ID])
		add(status.Problem{Kind: status.CPUConflict, Message: c.Describe(podName), Action: action, Command: command}, pods[c.ID])
	}
	for _, o := range books.Offline() {
		action, command := placeAgain(pods[o.Pod])
		add(status.Problem{Kind: status.CPUOffline, Message: o.Describe(podName), Action: "bring the CPUs online again, or " + action, Command: command}, pods[o.Pod])
	}
	for _, o := range books.Overflow() {
		add(status.Problem{Kind: status.CPUOverflow, Message: o.String(), Action: "move pods away from the node, those first that " +
			"the Pinfold scheduler did not place: spec.nodeName, static pods, other schedulers, resizes"}, nil)
	}
	return lost
}

// placeAgain says how to have a pod placed again.
func placeAgain(pod *corev1.Pod) (action, command string) {
	command = fmt.Sprintf("kubectl -n %s delete pod %s", pod.Namespace, pod.Name)
	if owner := metav1.GetControllerOf(pod); owner != nil {
		return fmt.Sprintf("delete the pod: its %s creates another one, which is placed anew", owner.Kind), command
	}
	return "delete the pod and create it again", command
}

// addContainers adds the containers of a pod that have exclusive CPUs or are confined. It returns
// the sum of the limits of those that are confined and run at the same time.
func addContainers(n *status.Node, pod *corev1.Pod, claim ledger.Claim) int {
	if len(claim.Containers) > 0 {
		*n.Pods++
	}
	var confined ledger.Phases[int]
	for i := range claim.Containers {
		c := &claim.Containers[i]
		if c.Policy == placement.StaticBurst {
			confined.Add(c.Role, c.Limit)
		}
		n.Containers = append(n.Containers, status.Container{Pod: nameOf(pod), Container: c.Name, Policy: c.Policy, Limit: c.Limit,
			CPUs: c.CPUs, NUMANodes: c.NUMANodes})
	}
	return confined.Largest()
}

// refine completes containers with what the books and the machine say: the CPUs of confined ones,
// the NUMA nodes of others, and their quality. A CPU that containers of one pod use in turn is left
// with the one that has it longest.
func refine(n *status.Node, books *ledger.Books, index *placement.Index, pods map[ledger.PodID]*corev1.Pod) {
	type name struct{ pod, container string }
	portions := map[name]cpuset.Set{}
	for _, p := range books.Portions() {
		portions[name{nameOf(pods[p.Pod]), p.Container}] = p.CPUs
	}
	machine := index.Machine()
	for i := range n.Containers {
		c := &n.Containers[i]
		if c.Policy == placement.StaticBurst {
			c.CPUs = machine.CPUsOfNUMA(c.NUMANodes...).Intersection(books.Shared())
		} else {
			c.CPUs = portions[name{c.Pod, c.Container}]
			c.NUMANodes = machine.NUMANodesOf(c.CPUs)
		}
		c.Quality = index.Quality(c.CPUs)
	}
	n.Containers = slices.DeleteFunc(n.Containers, func(c status.Container) bool { return c.Policy == placement.Static && c.CPUs.IsEmpty() })
}
