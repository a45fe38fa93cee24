package api

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
)

// drawPod draws a pod that asks for CPUs, with containers of all roles, some of which have whole
// CPUs as limits. Pod-level requests are at least the sum of the containers' requests, as the API
// server requires.
func drawPod(t *rapid.T, largest int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "uid-1", Annotations: map[string]string{
		CPUSetSchedulerAnnotation: "true",
		CPUPolicyAnnotation:       rapid.SampledFrom([]string{"static", "static-burst"}).Draw(t, "policy"),
	}}}
	for i := range rapid.IntRange(0, 4).Draw(t, "initContainers") {
		c := drawContainer(t, fmt.Sprintf("init-%d", i), largest)
		if rapid.Bool().Draw(t, "sidecar") {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, drawContainer(t, fmt.Sprintf("main-%d", i), largest))
	}
	if rapid.Bool().Draw(t, "overhead") {
		pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(rapid.Int64Range(0, 300).Draw(t, "overheadMilli"), resource.DecimalSI)}
	}
	if rapid.IntRange(0, 2).Draw(t, "podLevel") == 0 {
		least := int64(EffectiveRequest(pod)) - pod.Spec.Overhead.Cpu().MilliValue()
		more := rapid.Int64Range(0, 5000).Draw(t, "podLevelMore")
		pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewMilliQuantity(least+more, resource.DecimalSI)}}
	}
	return pod
}

func drawContainer(t *rapid.T, name string, largest int) corev1.Container {
	c := corev1.Container{Name: name}
	limit := rapid.Int64Range(0, int64(largest)*1000).Draw(t, "limit")
	if rapid.IntRange(0, 2).Draw(t, "whole") > 0 {
		limit = (limit + 999) / 1000 * 1000
	}
	request := rapid.Int64Range(0, limit).Draw(t, "request")
	c.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(request, resource.DecimalSI)}
	if rapid.IntRange(0, 3).Draw(t, "limited") > 0 {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(limit, resource.DecimalSI)}
	}
	return c
}
