package api

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/test/must"
)

// BenchmarkClaim measures what a scheduler does once for every bound pod, and Parse what it does
// whenever it tries to schedule one.
func BenchmarkClaim(b *testing.B) {
	pod := boundPod()
	b.ReportAllocs()
	for b.Loop() {
		must.Get(Claim(pod, nil))(b)
	}
}

func BenchmarkParse(b *testing.B) {
	pod := boundPod()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(pod); err != nil {
			b.Fatal(err)
		}
	}
}

func boundPod() *corev1.Pod {
	two := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "1", Annotations: map[string]string{
			CPUSetSchedulerAnnotation: "true",
			CPUPolicyAnnotation:       "static",
			AllocationAnnotation:      `{"version":1,"node":"n","policy":"static","containers":[{"name":"main","cpus":"2-3","numaNodes":[0]}]}`,
		}},
		Spec: corev1.PodSpec{
			NodeName:   "n",
			Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: two, Limits: two}}},
		},
	}
}
