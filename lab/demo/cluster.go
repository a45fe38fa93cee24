package demo

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/internal/sleep"
)

const (
	namespace    = metav1.NamespaceDefault
	pollInterval = 50 * time.Millisecond
	// waitTimeout is far above what a healthy cluster needs: a second or two.
	waitTimeout = 30 * time.Second
)

// cluster creates and deletes the objects of a round.
type cluster struct {
	objects dynamic.Interface // sends manifests as they are, nulls included
	typed   kubernetes.Interface
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
	return &cluster{objects: objects, typed: typed}, nil
}

func (c *cluster) resource(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	resources := map[string]schema.GroupVersionResource{
		"Pod":        {Version: "v1", Resource: "pods"},
		"Service":    {Version: "v1", Resource: "services"},
		"ConfigMap":  {Version: "v1", Resource: "configmaps"},
		"Deployment": {Group: "apps", Version: "v1", Resource: "deployments"},
	}
	resource, ok := resources[object.GetKind()]
	if !ok {
		return nil, fmt.Errorf("no example is a %q", object.GetKind())
	}
	return c.objects.Resource(resource).Namespace(namespace), nil
}

func (c *cluster) create(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		resource, err := c.resource(object)
		if err != nil {
			return err
		}
		if _, err := resource.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// delete returns when the objects and their pods are gone.
func (c *cluster) delete(ctx context.Context, objects []*unstructured.Unstructured) error {
	background := metav1.DeletePropagationBackground
	for _, object := range objects {
		resource, err := c.resource(object)
		if err != nil {
			return err
		}
		err = resource.Delete(ctx, object.GetName(), metav1.DeleteOptions{PropagationPolicy: &background})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	_, err := c.await(ctx, func(pods []corev1.Pod) error {
		if len(pods) > 0 {
			return fmt.Errorf("%d pods are still there", len(pods))
		}
		return nil
	})
	return err
}

// awaitBound returns the pods when there are so many and each has a node.
func (c *cluster) awaitBound(ctx context.Context, count int) ([]corev1.Pod, error) {
	return c.await(ctx, func(pods []corev1.Pod) error {
		var waiting []string
		for i := range pods {
			if pods[i].Spec.NodeName == "" {
				waiting = append(waiting, pods[i].Name+reason(&pods[i]))
			}
		}
		if len(waiting) > 0 {
			return fmt.Errorf("not bound: %s", strings.Join(waiting, "; "))
		}
		if len(pods) != count {
			return fmt.Errorf("there are %d pods, not %d", len(pods), count)
		}
		return nil
	})
}

// reason is what the scheduler says about a pod that has no node.
func reason(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Message != "" {
			return " (" + condition.Message + ")"
		}
	}
	return ""
}

func (c *cluster) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := c.typed.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return list.Items, nil
}

// await lists the pods until nothing is wrong with them any more.
func (c *cluster) await(ctx context.Context, problem func([]corev1.Pod) error) ([]corev1.Pod, error) {
	deadline := time.Now().Add(waitTimeout)
	for {
		list, err := c.pods(ctx)
		if err != nil {
			return nil, err
		}
		wrong := problem(list)
		if wrong == nil {
			return list, nil
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("gave up after %v: %w", waitTimeout, wrong)
		}
		if !sleep.For(ctx, pollInterval) {
			return nil, errors.Join(context.Cause(ctx), wrong)
		}
	}
}
