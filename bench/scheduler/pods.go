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

// parallelRequests keeps the API server busy; more than this only makes requests wait
// for each other.
const parallelRequests = 16

func (r *rig) createPods(ctx context.Context, pods []*corev1.Pod) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelRequests)
	for _, pod := range pods {
		group.Go(func() error {
			if _, err := r.client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create pod %s: %w", pod.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// deletePods returns when the pods are gone. Without grace the API server deletes them
// itself, and waits for no kubelet.
func (r *rig) deletePods(ctx context.Context, pods []*corev1.Pod) error {
	group, inGroup := errgroup.WithContext(ctx)
	group.SetLimit(parallelRequests)
	for _, pod := range pods {
		group.Go(func() error {
			err := r.client.CoreV1().Pods(namespace).Delete(inGroup, pod.Name, *metav1.NewDeleteOptions(0))
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete pod %s: %w", pod.Name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	left, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{Limit: 1})
	if err == nil && len(left.Items) > 0 {
		err = fmt.Errorf("pod %s is still there", left.Items[0].Name)
	}
	return err
}

// bindings tells when pods are bound.
type bindings struct{ watch watch.Interface }

// watchBindings follows pods from the moment at which they have a node.
func (r *rig) watchBindings(ctx context.Context) (*bindings, error) {
	bound := metav1.ListOptions{FieldSelector: "spec.nodeName!="}
	list, err := r.client.CoreV1().Pods(namespace).List(ctx, bound)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	if len(list.Items) > 0 {
		return nil, fmt.Errorf("pod %s is bound before the scheduler has started", list.Items[0].Name)
	}
	bound.ResourceVersion = list.ResourceVersion
	w, err := r.client.CoreV1().Pods(namespace).Watch(ctx, bound)
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return &bindings{w}, nil
}

func (b *bindings) stop() { b.watch.Stop() }

// errWatchEnded says that the API server has dropped the watch, as it does when events are
// not taken off it fast enough. When pods were bound is then not known.
var errWatchEnded = errors.New("the watch of pods has ended early")

// stall is how long no pod is bound before the scheduler is taken to be stuck.
const stall = 30 * time.Second

// await returns the times at which so many pods were seen bound, ascending.
func (b *bindings) await(ctx context.Context, count int) ([]time.Time, error) {
	times := make([]time.Time, 0, count)
	err := b.each(ctx, count, func(_ string, at time.Time) { times = append(times, at) })
	return times, err
}

// each calls seen with the name of each of the next count pods that are bound, and the
// time at which the watch told of it.
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
			if event.Type == watch.Added { // into what the watch selects
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
