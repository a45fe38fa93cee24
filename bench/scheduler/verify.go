package main

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/lab/simnode"
)

// maxProblems is the number of problems that are printed.
const maxProblems = 10

// verify checks that all pods are bound, and how.
func (r *rig) verify(pods []corev1.Pod, annotated bool) error {
	check := checker{rig: r, owners: map[string]map[cpuset.CPU]string{}}
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
		return fmt.Errorf("the pods are bound wrongly: %w", errors.Join(check.found...))
	}
	return nil
}

// checker checks every CPU on its own and then the books of every node.
type checker struct {
	*rig
	owners map[string]map[cpuset.CPU]string // pods by node and exclusive CPU
	found  []error
	count  int
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

// take records the pod as owner of an exclusive CPU.
func (c *checker) take(node *simnode.Node, cpu cpuset.CPU, pod string) {
	owners := c.owners[node.Name]
	if owners == nil {
		owners = map[cpuset.CPU]string{}
		c.owners[node.Name] = owners
	}
	if other, taken := owners[cpu]; taken {
		c.problem("CPU %d of node %s belongs to both %s and %s", cpu, node.Name, other, pod)
	}
	if node.ReservedCPUs.Contains(cpu) {
		c.problem("CPU %d of node %s is reserved but belongs to %s", cpu, node.Name, pod)
	}
	owners[cpu] = pod
}

// books checks the books of every node for conflicts and overflow.
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
			continue // reported by placed
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
