package uninstall

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/kube/dra"
)

// maxPods is how many pods an error lists. Kubernetes keeps 2 KiB of a container's last message.
const maxPods = 10

// checkClaims returns an error if pods on the nodes have claims for CPUs: without the agent, the
// kubelet cannot end them, and their node's cleanup refuses.
func (o Options) checkClaims(ctx context.Context, nodes map[string]bool) error {
	claims, err := o.Client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) { // Kubernetes before 1.34
		return nil
	}
	if err != nil {
		return fmt.Errorf("list resource claims: %w", err)
	}
	var found []string
	for _, claim := range claims.Items {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if result.Driver != dra.Driver || !nodes[result.Pool] {
				continue
			}
			for _, user := range claim.Status.ReservedFor {
				found = append(found, fmt.Sprintf("\n  %s: pod %s/%s", result.Pool, claim.Namespace, user.Name))
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if len(found) == 0 {
		return nil
	}
	text := quantity.Count(len(found), "pod") + " with CPUs of resource claims, which the kubelet cannot end without the agent:"
	if more := len(found) - maxPods; more > 0 {
		found = append(found[:maxPods], fmt.Sprintf("\n  and %d more", more))
	}
	return fmt.Errorf("%s%s\ndelete them, and uninstall again; until then the agents run", text, strings.Join(found, ""))
}
