package api

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helper "k8s.io/component-helpers/resource"

	"pinfold.dev/pinfold/core/ledger"
)

// largestRequest bounds what is counted: far more than any machine has, and small enough for sums.
const largestRequest ledger.MilliCPU = 1 << 40

// milli rounds up, so that nothing is counted for less than it is.
func milli(q resource.Quantity) ledger.MilliCPU {
	if q.Sign() <= 0 {
		return 0
	}
	if q.CmpInt64(int64(largestRequest)/1000) >= 0 {
		return largestRequest
	}
	return ledger.MilliCPU(q.MilliValue())
}

// effective is the CPU request of a pod as kube-scheduler counts it, with overhead, pod-level
// resources, init containers, and resizes under way (at their larger side).
func effective(pod *corev1.Pod) resource.Quantity {
	requests := helper.PodRequests(pod, helper.PodResourcesOptions{
		UseStatusResources: true,
		InPlacePodLevelResourcesVerticalScalingEnabled: true,
		UseDRANodeAllocatableResourceClaimStatus:       true,
	})
	return requests[corev1.ResourceCPU]
}

// EffectiveRequest returns the CPU request of a pod as kube-scheduler counts it.
func EffectiveRequest(pod *corev1.Pod) ledger.MilliCPU { return milli(effective(pod)) }

// ownRequest is what one container requests, the larger side of a resize under way.
func ownRequest(pod *corev1.Pod, m member) ledger.MilliCPU {
	if len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) == 0 {
		return milli(m.Resources.Requests[corev1.ResourceCPU]) // no kubelet has begun with the pod
	}
	alone := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{*m.Container}}}
	alone.Status.Conditions = pod.Status.Conditions
	alone.Status.ContainerStatuses = pod.Status.ContainerStatuses
	alone.Status.InitContainerStatuses = pod.Status.InitContainerStatuses
	return milli(effective(alone))
}

// sharedRequest is what a pod requests beside the containers that are placed: see the package
// comment.
func sharedRequest(pod *corev1.Pod, own []ledger.ContainerAsk) ledger.MilliCPU {
	if len(own) == 0 {
		return EffectiveRequest(pod)
	}
	var shared ledger.MilliCPU
	if members := len(pod.Spec.Containers) + len(pod.Spec.InitContainers); members > len(own) || pod.Spec.Overhead != nil {
		shared = EffectiveRequest(withoutContainers(pod, own))
	}
	if !hasPodLevelRequest(pod) {
		return shared
	}
	var lasting ledger.MilliCPU
	for _, c := range own {
		if c.Role != ledger.RoleInit {
			lasting += c.Request
		}
	}
	return max(shared, EffectiveRequest(pod)-lasting)
}

func hasPodLevelRequest(pod *corev1.Pod) bool {
	if pod.Spec.Resources == nil {
		return false
	}
	_, ok := pod.Spec.Resources.Requests[corev1.ResourceCPU]
	return ok
}

// withoutContainers is the rest of a pod when the placed containers and everything that is said of
// the pod as a whole, its overhead excepted, are taken away.
func withoutContainers(pod *corev1.Pod, own []ledger.ContainerAsk) *corev1.Pod {
	placed := make(map[string]bool, len(own))
	for _, c := range own {
		placed[c.Name] = true
	}
	keep := func(all []corev1.Container) (rest []corev1.Container) {
		for i := range all {
			if !placed[all[i].Name] {
				rest = append(rest, all[i])
			}
		}
		return rest
	}
	rest := &corev1.Pod{Spec: corev1.PodSpec{
		Containers:     keep(pod.Spec.Containers),
		InitContainers: keep(pod.Spec.InitContainers),
		Overhead:       pod.Spec.Overhead,
	}}
	rest.Status = pod.Status
	rest.Status.Resources, rest.Status.AllocatedResources = nil, nil
	return rest
}
