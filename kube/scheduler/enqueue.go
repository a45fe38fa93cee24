package scheduler

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/kube/api"
)

// EventsToRegister lists the events that can make a pod fit that this plugin has refused.
// Besides, [waitingPods] returns pods to the queue when a topology or an agent changes.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: afterPodLeft},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Update},
			PreQueueingHintFn: onlyWhenFreeing, QueueingHintFn: afterAssignedPodChanged},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: afterOwnChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable}, QueueingHintFn: afterNodeChanged},
	}, nil
}

// hint turns a condition into the framework's answer.
func hint(queue bool) (fwk.QueueingHint, error) {
	if queue {
		return fwk.Queue, nil
	}
	return fwk.QueueSkip, nil
}

func cast[T any](obj any) (T, error) {
	t, ok := obj.(T)
	if !ok {
		return t, fmt.Errorf("expected a %T, got a %T", t, obj)
	}
	return t, nil
}

// afterPodLeft: a pod was deleted, ended, or was not bound after all.
func afterPodLeft(_ klog.Logger, _ *corev1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
	gone, err := cast[*corev1.Pod](oldObj)
	if err != nil {
		return fwk.Queue, err
	}
	return hint(api.EffectiveRequest(gone) > 0 || asks(gone))
}

// onlyWhenFreeing ends the search for pods to try again early, once per event: most
// updates of bound pods are about their status.
func onlyWhenFreeing(_ klog.Logger, oldObj, newObj any) (fwk.PreQueueingHintResult, error) {
	frees, err := freesCPUs(oldObj, newObj)
	return fwk.PreQueueingHintResult{AllPods: frees}, err
}

// afterAssignedPodChanged: the pod was scaled down, or what entitles it to CPUs of its
// own was edited, as when it no longer asks.
func afterAssignedPodChanged(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	frees, err := freesCPUs(oldObj, newObj)
	if err != nil {
		return fwk.Queue, err
	}
	return hint(frees)
}

func freesCPUs(oldObj, newObj any) (bool, error) {
	before, err := cast[*corev1.Pod](oldObj)
	if err != nil {
		return true, err
	}
	after, err := cast[*corev1.Pod](newObj)
	if err != nil {
		return true, err
	}
	return api.EffectiveRequest(after) < api.EffectiveRequest(before) || !api.SameEntitlement(before, after), nil
}

// afterOwnChange: the user has edited the waiting pod's words, labels or resources.
func afterOwnChange(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, err := cast[*corev1.Pod](oldObj)
	if err != nil {
		return fwk.Queue, err
	}
	after, err := cast[*corev1.Pod](newObj)
	if err != nil {
		return fwk.Queue, err
	}
	return hint(!maps.Equal(before.Annotations, after.Annotations) || !maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec))
}

// afterNodeChanged: a node was added, or has more CPU time to give.
func afterNodeChanged(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	after, err := cast[*corev1.Node](newObj)
	if err != nil {
		return fwk.Queue, err
	}
	if oldObj == nil {
		return fwk.Queue, nil
	}
	before, err := cast[*corev1.Node](oldObj)
	if err != nil {
		return fwk.Queue, err
	}
	return hint(after.UID != before.UID || reservedCPU(after) < reservedCPU(before) ||
		after.Status.Allocatable.Cpu().Cmp(*before.Status.Allocatable.Cpu()) > 0)
}

// asks reports whether the pod asks to be placed, by annotations that may be invalid.
func asks(pod *corev1.Pod) bool {
	intent, err := api.Parse(pod)
	return err != nil || intent.Asks()
}
