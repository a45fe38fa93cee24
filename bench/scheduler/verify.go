package main

import (
	"context"
	"fmt"
	"time"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/survey"
)

// publishTime is how long the agents may take to publish the CPUs of the last pods.
const publishTime = time.Minute

// verify checks that all pods are bound and, if they ask, that all have an allocation, otherwise none.
// Whether allocations are right is checked by test/history.
func (r *rig) verify(ctx context.Context, annotated bool) error {
	client, err := survey.NewClient(r.cluster.RESTConfig(), nodetopology.LeaseNamespace)
	if err != nil {
		return err
	}
	want := 0
	if annotated {
		want = r.options.pods
	}
	for begun := time.Now(); ; {
		objects, err := client.Read(ctx, "")
		if err != nil {
			return err
		}
		bound, served := 0, 0
		for _, pod := range objects.Pods {
			if pod.Spec.NodeName != "" {
				bound++
			}
		}
		for i := range objects.Topologies {
			served += len(objects.Topologies[i].State.Allocations)
		}
		if bound == r.options.pods && served == want {
			return nil
		}
		if time.Since(begun) > publishTime || !sleep.For(ctx, time.Second) {
			return fmt.Errorf("of %d pods %d are bound, and %d have an allocation, want %d", r.options.pods, bound, served, want)
		}
	}
}
