package demo

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/nodetopology/apiclient"
	"pinfold.dev/pinfold/local/localnode"
)

const (
	namespace    = metav1.NamespaceDefault
	pollInterval = 50 * time.Millisecond
	// waitTimeout limits waits that take a second or two in a healthy cluster, and much longer while
	// the API server does not get CPU time.
	waitTimeout = 2 * time.Minute
)

// cluster creates and deletes the objects of a round.
type cluster struct {
	objects dynamic.Interface // sends manifests unchanged, including nulls
	typed   kubernetes.Interface
	nodes   nodetopology.Client
}

func newCluster(config *rest.Config) (*cluster, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	nodes, err := apiclient.New(config)
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	return &cluster{objects: objects, typed: typed, nodes: nodes}, nil
}

func (c *cluster) create(ctx context.Context, objects []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	return localnode.CreateAll(ctx, c.objects, objects)
}

// delete deletes the objects and waits until all pods are gone.
func (c *cluster) delete(ctx context.Context, objects []*unstructured.Unstructured) error {
	background := metav1.DeletePropagationBackground
	bounded, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for _, object := range objects {
		err := localnode.Answered(bounded, func() error {
			return localnode.Resource(c.objects, object).Delete(bounded, object.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	_, err := c.await(ctx, func(pods []corev1.Pod) string {
		if len(pods) > 0 {
			return fmt.Sprintf("%d pods still exist", len(pods))
		}
		return ""
	})
	return err
}

// awaitBound waits until there are count pods and each is bound to a node, and returns them.
func (c *cluster) awaitBound(ctx context.Context, count int) ([]corev1.Pod, error) {
	return c.await(ctx, func(pods []corev1.Pod) string {
		for i := range pods {
			if pods[i].Spec.NodeName == "" {
				return "not bound: " + pods[i].Name + reason(&pods[i])
			}
		}
		if len(pods) != count {
			return fmt.Sprintf("there are %d pods, not %d", len(pods), count)
		}
		return ""
	})
}

// awaitAllocated waits until the agents of nodes have allocated CPUs to all pods that ask, and returns what
// they have allocated.
func (c *cluster) awaitAllocated(ctx context.Context, pods []corev1.Pod) (all api.Allocations, err error) {
	_, err = c.await(ctx, func([]corev1.Pod) string {
		if all, err = c.allocations(ctx); err != nil {
			return err.Error()
		}
		for i := range pods {
			_, allocated := all[pods[i].UID]
			if asks, err := api.Asks(&pods[i]); err != nil || asks && !allocated {
				return fmt.Sprintf("pod %s has no CPUs of its own yet", pods[i].Name)
			}
		}
		return ""
	})
	return all, err
}

// allocations returns what the agents of all nodes have published.
func (c *cluster) allocations(ctx context.Context) (api.Allocations, error) {
	var list *nodetopology.List
	err := localnode.Answered(ctx, func() (err error) {
		list, err = c.nodes.List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list what nodes have published: %w", err)
	}
	all := api.Allocations{}
	for i := range list.Items {
		_, state, err := nodetopology.ToMachine(&list.Items[i])
		if err != nil {
			return nil, err
		}
		maps.Copy(all, state.Allocations)
	}
	return all, nil
}

// reason returns the scheduler's message about a pod that has no node.
func reason(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Message != "" {
			return " (" + condition.Message + ")"
		}
	}
	return ""
}

// pods lists the pods. It tries again for some time when the API server is restarted or too slow to
// answer.
func (c *cluster) pods(ctx context.Context) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	var list *corev1.PodList
	err := localnode.Answered(ctx, func() (err error) {
		list, err = c.typed.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return list.Items, nil
}

// await lists the pods until missing returns "", and returns them.
func (c *cluster) await(ctx context.Context, missing func([]corev1.Pod) string) (list []corev1.Pod, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, waitTimeout, fmt.Errorf("gave up after %v", waitTimeout))
	defer cancel()
	err = sleep.Until(ctx, pollInterval, func() (string, error) {
		if list, err = c.pods(ctx); err != nil {
			return "", err
		}
		return missing(list), nil
	})
	return list, err
}
