package scheduler

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/util"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler/evict"
)

// EventsToRegister returns the events after which a pod that this plugin has refused may fit.
// Package waiting handles changes of topologies and agents.
func (p *Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) {
	return []fwk.ClusterEventWithHint{
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Delete}, QueueingHintFn: oncePerEvent(p.together(afterPodLeft))},
		{Event: fwk.ClusterEvent{Resource: fwk.AssignedPod, ActionType: fwk.Update},
			PreQueueingHintFn: onlyWhenFreeing, QueueingHintFn: oncePerEvent(p.together(afterAssignedPodChanged))},
		{Event: fwk.ClusterEvent{Resource: fwk.TargetPod, ActionType: fwk.Update}, QueueingHintFn: afterOwnChange},
		{Event: fwk.ClusterEvent{Resource: fwk.Node, ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeCondition}, QueueingHintFn: afterNodeChanged},
	}, nil
}

// oncePerEvent computes a hint that does not depend on the waiting pod once for all of them: the
// pod of the event may be large, and many may wait.
func oncePerEvent(hint fwk.QueueingHintFn) fwk.QueueingHintFn {
	var mu sync.Mutex
	var before, after any
	var answer fwk.QueueingHint
	var known error
	return func(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		mu.Lock()
		defer mu.Unlock()
		if before != oldObj || after != newObj || oldObj == nil && newObj == nil {
			answer, known = hint(logger, pod, oldObj, newObj)
			before, after = oldObj, newObj
		}
		return answer, known
	}
}

// together leaves the pods that a hint would queue to package waiting, which returns them after a
// number of such events and not after each: pods come and go all the time, and many may wait.
func (p *Plugin) together(hint fwk.QueueingHintFn) fwk.QueueingHintFn {
	return func(logger klog.Logger, pod *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
		answer, err := hint(logger, pod, oldObj, newObj)
		if err != nil || answer == fwk.QueueSkip {
			return answer, err
		}
		p.shared.waiting.Release()
		return fwk.QueueSkip, nil
	}
}

// hint turns a condition into the framework's answer. On error the pod is queued.
func hint(queue bool, err error) (fwk.QueueingHint, error) {
	if queue || err != nil {
		return fwk.Queue, err
	}
	return fwk.QueueSkip, nil
}

// afterPodLeft handles a pod that was deleted, ended or failed to be bound.
func afterPodLeft(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	gone, _, err := util.As[*corev1.Pod](oldObj, newObj)
	return hint(err == nil && (api.EffectiveRequest(gone) > 0 || asks(gone)), err)
}

// onlyWhenFreeing skips updates of bound pods that free no CPUs, once per event instead of once per
// waiting pod: most of them are status updates.
func onlyWhenFreeing(_ klog.Logger, oldObj, newObj any) (fwk.PreQueueingHintResult, error) {
	frees, err := freesCPUs(oldObj, newObj)
	return fwk.PreQueueingHintResult{AllPods: frees || err != nil}, err
}

// afterAssignedPodChanged handles a pod that was scaled down or whose entitlement to exclusive CPUs
// has changed.
func afterAssignedPodChanged(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	return hint(freesCPUs(oldObj, newObj))
}

func freesCPUs(oldObj, newObj any) (bool, error) {
	before, after, err := util.As[*corev1.Pod](oldObj, newObj)
	return err == nil && (api.EffectiveRequest(after) < api.EffectiveRequest(before) || !api.AskAlike(before, after)), err
}

// afterOwnChange handles an edit of the waiting pod's annotations, labels or spec.
func afterOwnChange(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := util.As[*corev1.Pod](oldObj, newObj)
	return hint(err == nil && (!maps.Equal(before.Annotations, after.Annotations) || !maps.Equal(before.Labels, after.Labels) ||
		!equality.Semantic.DeepEqual(before.Spec, after.Spec)), err)
}

// afterNodeChanged handles a new node, one with more CPU time to allocate, or one on which batch
// pods do not starve any more.
func afterNodeChanged(_ klog.Logger, _ *corev1.Pod, oldObj, newObj any) (fwk.QueueingHint, error) {
	before, after, err := util.As[*corev1.Node](oldObj, newObj)
	return hint(err == nil && (before == nil || after.UID != before.UID || api.Reserved(after) < api.Reserved(before) ||
		evict.Starves(before) && !evict.Starves(after) ||
		after.Status.Allocatable.Cpu().Cmp(*before.Status.Allocatable.Cpu()) > 0), err)
}

// asks reports whether the pod asks for CPUs, possibly by invalid annotations.
func asks(pod *corev1.Pod) bool {
	intent, err := api.Parse(pod)
	return err != nil || intent.Asks()
}
