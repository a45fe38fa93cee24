package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/lab/localcluster"
)

// maxAttempts of one measurement are spoiled by others on the machine before it is given up.
const maxAttempts = 3

// again repeats a measurement that was spoiled by others on the machine.
func again[T any](r *rig, v variant, attempt func() (T, error)) (T, error) {
	for n := 1; ; n++ {
		f, err := attempt()
		if !errors.Is(err, errWatchEnded) || n == maxAttempts {
			return f, err
		}
		fmt.Fprintf(r.stderr, "nodes=%d: plugin=%s: %v; measuring again\n", len(r.nodes), v.name, err)
	}
}

// measure lets one scheduler bind all pods, and leaves the cluster as it was.
func (r *rig) measure(ctx context.Context, v variant) (figures, error) {
	return again(r, v, func() (figures, error) { return r.attempt(ctx, v) })
}

func (r *rig) attempt(ctx context.Context, v variant) (f figures, err error) {
	pods := makePods(r.options.pods, v.annotated)
	if err := r.createPods(ctx, pods); err != nil {
		return f, err
	}
	f, err = r.schedule(ctx, v)
	switch {
	case errors.Is(err, errWatchEnded):
		return f, errors.Join(err, r.deletePods(ctx, pods))
	case err != nil:
		return f, errors.Join(err, r.explain(ctx))
	}
	bound, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, fmt.Errorf("list pods: %w", err)
	}
	if err := r.verify(bound.Items, v.annotated); err != nil {
		return f, err
	}
	return f, r.deletePods(ctx, pods)
}

// schedule runs the scheduler until all pods are bound.
func (r *rig) schedule(ctx context.Context, v variant) (f figures, err error) {
	watch, err := r.watchBindings(ctx)
	if err != nil {
		return f, err
	}
	defer watch.stop()
	defer func() { err = errors.Join(err, r.cluster.StopComponent(localcluster.Scheduler)) }()
	if err := r.startScheduler(ctx, v); err != nil {
		return f, err
	}
	ready, pid := time.Now(), r.cluster.PID(localcluster.Scheduler)
	first, err := watch.await(ctx, 1)
	if err != nil {
		return f, err
	}
	profile := r.startProfile(ctx, v)
	cpuBefore, err := cpuTime(pid)
	if err != nil {
		return f, err
	}
	times, err := watch.await(ctx, r.options.pods-1)
	if err != nil {
		return f, err
	}
	cpuAfter, err := cpuTime(pid)
	if err != nil {
		return f, err
	}
	return newFigures(ready, append(first, times...), cpuAfter-cpuBefore), profile.wait()
}

// startScheduler returns when the scheduler is ready. It is to be stopped also after an error.
func (r *rig) startScheduler(ctx context.Context, v variant) error {
	if err := r.cluster.ConfigureScheduler([]byte(v.config)); err != nil {
		return err
	}
	return r.cluster.StartComponent(ctx, localcluster.Scheduler)
}

// explain says what the scheduler says about pods that are not bound.
func (r *rig) explain(ctx context.Context) error {
	pods, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName="})
	if err != nil || len(pods.Items) == 0 {
		return err
	}
	reason := "the scheduler has not tried it"
	for _, condition := range pods.Items[0].Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Message != "" {
			reason = condition.Message
		}
	}
	return fmt.Errorf("%d pods are not bound, %s first: %s", len(pods.Items), pods.Items[0].Name, reason)
}
