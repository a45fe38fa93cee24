package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/survey"
)

// maxProblems is the number of problems that are printed.
const maxProblems = 10

// publishTime is how long the agents may take to publish the CPUs of the last pods.
const publishTime = time.Minute

// verify checks how the pods of the cluster are bound, when the agents have published what they have.
func (r *rig) verify(ctx context.Context, annotated bool) error {
	client, err := survey.NewClient(r.cluster.RESTConfig(), nodetopology.LeaseNamespace)
	if err != nil {
		return err
	}
	for begun := time.Now(); ; {
		objects, err := client.Read(ctx, "")
		if err != nil {
			return err
		}
		err = verify(objects, r.options.pods, annotated)
		if err == nil || !annotated || time.Since(begun) > publishTime || !sleep.For(ctx, time.Second) {
			return err
		}
	}
}

// verify checks that a number of pods are all bound, and that their allocations agree with the
// books of their nodes. Pods without annotations must have no allocation.
func verify(objects *survey.Objects, pods int, annotated bool) error {
	var found []error
	if len(objects.Pods) != pods {
		found = append(found, fmt.Errorf("there are %d pods, not %d", len(objects.Pods), pods))
	}
	published, claims := map[string]api.Allocations{}, map[string][]ledger.Claim{}
	for i := range objects.Topologies {
		published[objects.Topologies[i].Name] = objects.Topologies[i].State.Allocations
	}
	for _, pod := range objects.Pods {
		node := pod.Spec.NodeName
		allocation, allocated := published[node][pod.UID]
		claim, _, _ := published[node].Claim(pod, nil)
		claims[node] = append(claims[node], claim)
		switch {
		case node == "":
			found = append(found, fmt.Errorf("pod %s is not bound", pod.Name))
		case allocated && !annotated:
			found = append(found, fmt.Errorf("pod %s does not ask and has an allocation: %s", pod.Name, allocation.Encode()))
		case annotated && !allocated:
			found = append(found, fmt.Errorf("pod %s has no CPUs of its own", pod.Name))
		case annotated && string(allocation.Policy) != pod.Annotations[api.CPUPolicyAnnotation]:
			found = append(found, fmt.Errorf("pod %s has CPUs by policy %s", pod.Name, allocation.Policy))
		}
	}
	for i := range objects.Topologies {
		found = append(found, checkBooks(&objects.Topologies[i], claims[objects.Topologies[i].Name])...)
	}
	if more := len(found) - maxProblems; more > 0 {
		found = append(found[:maxProblems], fmt.Errorf("and %d more", more))
	}
	if len(found) > 0 {
		return fmt.Errorf("the pods are bound wrongly: %w", errors.Join(found...))
	}
	return nil
}

// checkBooks returns what is wrong in the books of a node.
func checkBooks(node *survey.Topology, claims []ledger.Claim) (found []error) {
	if node.Err != nil {
		return []error{node.Err}
	}
	books := ledger.New(node.Index, ledger.Config{ReservedCPUs: node.State.ReservedCPUs}, claims...)
	for _, conflict := range books.Conflicts() {
		found = append(found, fmt.Errorf("node %s: pod %s has CPUs of another pod, or that the node lacks", node.Name, conflict.ID))
	}
	for _, overflow := range books.Overflow() {
		found = append(found, fmt.Errorf("node %s: %s", node.Name, overflow))
	}
	return found
}
