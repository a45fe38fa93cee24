package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	helper "k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/ledger"
)

// drawStatuses draws what a kubelet reports about some containers, in the middle of a resize or
// not.
func drawStatuses(t *rapid.T, containers []corev1.Container) (all []corev1.ContainerStatus) {
	draw := func(name string) corev1.ResourceList {
		if !rapid.Bool().Draw(t, name) {
			return nil
		}
		return cpuList(ledger.MilliCPU(rapid.IntRange(0, 5000).Draw(t, name+"Milli")))
	}
	for i := range containers {
		if rapid.IntRange(0, 3).Draw(t, "unreported") == 0 {
			continue
		}
		s := corev1.ContainerStatus{Name: containers[i].Name, AllocatedResources: draw("allocated")}
		if requests := draw("actuated"); requests != nil || rapid.Bool().Draw(t, "noRequests") {
			s.Resources = &corev1.ResourceRequirements{Requests: requests}
		}
		all = append(all, s)
	}
	return all
}

// Requests are those of kube-scheduler, whatever the kubelet reports.
func TestRequestsAgreeWithKubernetes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := drawPod(t, 6)
		pod.Status.InitContainerStatuses = drawStatuses(t, pod.Spec.InitContainers)
		pod.Status.ContainerStatuses = drawStatuses(t, pod.Spec.Containers)
		if reason := rapid.SampledFrom([]string{"", corev1.PodReasonDeferred, corev1.PodReasonInfeasible}).Draw(t, "resize"); reason != "" {
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}}
		}
		if rapid.Bool().Draw(t, "podLevelStatus") {
			pod.Status.AllocatedResources = cpuList(ledger.MilliCPU(rapid.IntRange(0, 9000).Draw(t, "podAllocated")))
			pod.Status.Resources = &corev1.ResourceRequirements{Requests: cpuList(ledger.MilliCPU(rapid.IntRange(0, 9000).Draw(t, "podActuated")))}
		}
		options := helper.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true,
			UseDRANodeAllocatableResourceClaimStatus: true}
		if got, want := EffectiveRequest(pod), MilliCPU(helper.PodRequests(pod, options)); got != want {
			t.Fatalf("request %v, kube-scheduler counts %v", got, want)
		}
		if len(pod.Status.ContainerStatuses)+len(pod.Status.InitContainerStatuses) == 0 {
			return
		}
		counts := newCounts(pod)
		for _, m := range members(pod) {
			alone := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{*m.Container}}}
			alone.Status.Conditions = pod.Status.Conditions
			alone.Status.ContainerStatuses = pod.Status.ContainerStatuses
			alone.Status.InitContainerStatuses = pod.Status.InitContainerStatuses
			if got, want := counts.own(m), MilliCPU(helper.PodRequests(alone, options)); got != want {
				t.Fatalf("container %s requests %v, kube-scheduler counts %v", m.Name, got, want)
			}
		}
	})
}
