package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// parallelRequests keeps the API server busy. With more, requests wait for each other.
const parallelRequests = 16

// forEach calls do for all pods in parallel.
func forEach(ctx context.Context, verb string, pods []*corev1.Pod, do func(context.Context, *corev1.Pod) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelRequests)
	for _, pod := range pods {
		group.Go(func() error {
			if err := do(ctx, pod); err != nil {
				return fmt.Errorf("%s pod %s: %w", verb, pod.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

func (r *rig) createPods(ctx context.Context, pods []*corev1.Pod) error {
	return forEach(ctx, "create", pods, func(ctx context.Context, pod *corev1.Pod) error {
		_, err := r.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// deletePods returns when the pods are deleted. With a grace period of 0 the API server deletes
// them without waiting for a kubelet.
func (r *rig) deletePods(ctx context.Context, pods []*corev1.Pod) error {
	err := forEach(ctx, "delete", pods, func(ctx context.Context, pod *corev1.Pod) error {
		err := r.client.CoreV1().Pods(namespace).Delete(ctx, pod.Name, *metav1.NewDeleteOptions(0))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	remaining, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err == nil && len(remaining.Items) > 0 {
		err = fmt.Errorf("pod %s was not deleted", remaining.Items[0].Name)
	}
	return err
}

// bindings watches pods being bound.
type bindings struct{ watch watch.Interface }

// watchBindings watches the pods that have a node. There must be none yet.
func (r *rig) watchBindings(ctx context.Context) (*bindings, error) {
	bound := metav1.ListOptions{FieldSelector: "spec.nodeName!="}
	list, err := r.client.CoreV1().Pods(namespace).List(ctx, bound)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	if len(list.Items) > 0 {
		return nil, fmt.Errorf("pod %s was bound before the scheduler started", list.Items[0].Name)
	}
	bound.ResourceVersion = list.ResourceVersion
	w, err := r.client.CoreV1().Pods(namespace).Watch(ctx, bound)
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return &bindings{w}, nil
}

func (b *bindings) stop() { b.watch.Stop() }

// errWatchEnded means that the API server has dropped the watch, as it does if events are not read
// fast enough. Then the times of the bindings are not known.
var errWatchEnded = errors.New("the watch of pods has ended early")

// stall is the time without a binding after which the scheduler counts as stuck.
const stall = 30 * time.Second

// await returns the times of the next count bindings, in ascending order.
func (b *bindings) await(ctx context.Context, count int) ([]time.Time, error) {
	times := make([]time.Time, 0, count)
	err := b.each(ctx, count, func(_ string, at time.Time) { times = append(times, at) })
	return times, err
}

// each calls seen for the next count bindings, with the pod's name and the time of the watch event.
func (b *bindings) each(ctx context.Context, count int, seen func(pod string, at time.Time)) error {
	for n := 0; n < count; {
		select {
		case event, ok := <-b.watch.ResultChan():
			if !ok {
				return errWatchEnded
			}
			if event.Type == watch.Error {
				return fmt.Errorf("watch pods: %w", apierrors.FromObject(event.Object))
			}
			if event.Type == watch.Added { // now matches the watch's selector
				pod, ok := event.Object.(*corev1.Pod)
				if !ok {
					return fmt.Errorf("watch pods: the API server sent a %T", event.Object)
				}
				seen(pod.Name, time.Now())
				n++
			}
		case <-time.After(stall):
			return fmt.Errorf("no pod was bound for %v; %d of %d are", stall, n, count)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
