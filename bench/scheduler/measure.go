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

// measure lets one scheduler bind all pods, and leaves the cluster as it was.
func (r *rig) measure(ctx context.Context, v variant) (figures, error) {
	if err := r.createPods(ctx, makePods(r.options.pods, v.annotated)); err != nil {
		return figures{}, err
	}
	f, err := r.schedule(ctx, v)
	if err != nil {
		return f, errors.Join(err, r.explain(ctx))
	}
	pods, err := r.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return f, fmt.Errorf("list pods: %w", err)
	}
	if err := r.verify(pods.Items, v.annotated); err != nil {
		return f, err
	}
	return f, r.deletePods(ctx, pods.Items)
}

// schedule runs the scheduler until all pods are bound.
func (r *rig) schedule(ctx context.Context, v variant) (f figures, err error) {
	watch, err := r.watchBindings(ctx)
	if err != nil {
		return f, err
	}
	defer watch.stop()
	if err := r.cluster.ConfigureScheduler([]byte(v.config)); err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, r.cluster.StopComponent(localcluster.Scheduler)) }()
	if err := r.cluster.StartComponent(ctx, localcluster.Scheduler); err != nil {
		return f, err
	}
	start, pid := time.Now(), r.cluster.PID(localcluster.Scheduler)
	cpuBefore, err := cpuTime(pid)
	if err != nil {
		return f, err
	}
	profile := r.startProfile(ctx, v)
	times, err := watch.await(ctx, r.options.pods)
	if err != nil {
		return f, err
	}
	cpuAfter, err := cpuTime(pid)
	if err != nil {
		return f, err
	}
	return newFigures(start, times, cpuAfter-cpuBefore), profile.wait()
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
