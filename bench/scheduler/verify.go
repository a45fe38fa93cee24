package main

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/lab/simnode"
)

// maxProblems of a wrong outcome are told.
const maxProblems = 10

// verify checks what a scheduler has made of the pods, which must all be bound.
func (r *rig) verify(pods []corev1.Pod, annotated bool) error {
	check := checker{nodes: r.nodes, indexes: r.indexes, owners: map[string]map[cpuset.CPU]string{}}
	if len(pods) != r.options.pods {
		check.problem("there are %d pods, not %d", len(pods), r.options.pods)
	}
	for i := range pods {
		if annotated {
			check.placed(&pods[i])
		} else if text, ok := pods[i].Annotations[api.AllocationAnnotation]; ok {
			check.problem("pod %s was bound without the plugin and has an allocation: %s", pods[i].Name, text)
		}
	}
	if annotated {
		check.books(pods)
	}
	if check.count > maxProblems {
		check.found = append(check.found, fmt.Errorf("and %d more", check.count-maxProblems))
	}
	if len(check.found) > 0 {
		return fmt.Errorf("the outcome is wrong: %w", errors.Join(check.found...))
	}
	return nil
}

// checker looks at CPUs one by one, and then asks the books.
type checker struct {
	nodes   map[string]*simnode.Node
	indexes map[*topology.Machine]*placement.Index
	owners  map[string]map[cpuset.CPU]string // pod, by node and exclusive CPU
	found   []error
	count   int
}

func (c *checker) problem(format string, args ...any) {
	if c.count++; c.count <= maxProblems {
		c.found = append(c.found, fmt.Errorf(format, args...))
	}
}

// placed checks the allocation of one pod.
func (c *checker) placed(pod *corev1.Pod) {
	node := c.nodes[pod.Spec.NodeName]
	if node == nil {
		c.problem("pod %s is on node %q, which does not exist", pod.Name, pod.Spec.NodeName)
		return
	}
	allocation, err := api.AllocationOf(pod)
	if err == nil && allocation == nil {
		err = errors.New("it has none")
	}
	if err == nil {
		err = allocation.Validate(node.Machine)
	}
	if err != nil {
		c.problem("allocation of pod %s: %w", pod.Name, err)
		return
	}
	if want := pod.Annotations[api.CPUPolicyAnnotation]; string(allocation.Policy) != want {
		c.problem("pod %s: policy is %s, not %s", pod.Name, allocation.Policy, want)
	}
	for _, container := range allocation.Containers {
		for cpu := range container.CPUs.All() {
			c.take(node, cpu, pod.Name)
		}
	}
}

// take books one CPU for a pod alone.
func (c *checker) take(node *simnode.Node, cpu cpuset.CPU, pod string) {
	owners := c.owners[node.Name]
	if owners == nil {
		owners = map[cpuset.CPU]string{}
		c.owners[node.Name] = owners
	}
	if other, taken := owners[cpu]; taken {
		c.problem("CPU %d of node %s is of both %s and %s", cpu, node.Name, other, pod)
	}
	if node.ReservedCPUs.Contains(cpu) {
		c.problem("CPU %d of node %s is reserved, and of %s", cpu, node.Name, pod)
	}
	owners[cpu] = pod
}

// books checks what the nodes have promised in sum.
func (c *checker) books(pods []corev1.Pod) {
	claims := map[string][]ledger.Claim{}
	names := map[ledger.PodID]string{}
	for i := range pods {
		node := c.nodes[pods[i].Spec.NodeName]
		if node == nil {
			continue
		}
		claim, err := api.Claim(&pods[i], node.Machine)
		if err != nil {
			continue // placed has said so
		}
		claims[node.Name] = append(claims[node.Name], claim)
		names[claim.ID] = pods[i].Name
	}
	podName := func(id ledger.PodID) string { return names[id] }
	for name, onNode := range claims {
		node := c.nodes[name]
		books := ledger.New(c.indexes[node.Machine], ledger.Config{
			Reserved:     ledger.MilliCPU(node.ReservedCPUs.Len() * 1000),
			ReservedCPUs: node.ReservedCPUs,
		}, onNode...)
		for _, conflict := range books.Conflicts() {
			c.problem("node %s: %s", name, conflict.Describe(podName))
		}
		for _, overflow := range books.Overflow() {
			c.problem("node %s: %s", name, overflow.Describe(podName))
		}
	}
}
