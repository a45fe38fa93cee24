package cluster

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/kube/api"
)

// longAnnotations creates pods whose annotations are as long as the API server accepts. With those
// of a Binding they would be longer, and their status could never be written again.
func (a *attacker) longAnnotations() {
	const key, why = "example.com/long", "and the API server accepts 262144: shorten them"
	for name, ask := range map[string]string{"plain": "false", "asking": "true"} {
		pod := a.parse(strings.Replace(asking(name, 1, ""), `"true"`, `"`+ask+`"`, 1))
		left := validation.TotalAnnotationSizeLimitB - len(key)
		for k, v := range pod.Annotations {
			left -= len(k) + len(v)
		}
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, strings.Repeat("x", left))
		a.submit(pod)
		a.refused(a.namespace, name, why)
	}
	// Room for the name of the scheduler, and not for the CPUs.
	a.edit("asking", map[string]any{key: strings.Repeat("x", validation.TotalAnnotationSizeLimitB-300)})
	a.refused(a.namespace, "asking", why)
	for _, name := range []string{"plain", "asking"} {
		a.edit(name, map[string]any{key: nil})
		pod := a.boundOwn(name)
		_, err := a.client.CoreV1().Pods(a.namespace).Patch(a.Context(), pod.Name, types.MergePatchType,
			[]byte(`{"status":{"message":"it can be written"}}`), metav1.PatchOptions{}, "status")
		a.must(err)
	}
	a.entitled = 1
}

// thousandsOfContainers creates pods with 4,000 init containers that ask, others with 1,000 that do
// not (with more, the API server may be unable to change them once they run), and then one with as
// many as may ask.
func (a *attacker) thousandsOfContainers() {
	of := func(name string, inits int, asks bool) *corev1.Pod {
		pod := a.parse(asking(name, 1, ""))
		if !asks {
			delete(pod.Annotations, "cpuset-scheduler")
		}
		for i := range inits {
			init := corev1.Container{Name: fmt.Sprint("init-", i), Image: "app"}
			init.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}
			init.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")}
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, init)
		}
		return pod
	}
	for i := range 6 {
		a.submit(of(fmt.Sprint("many", i), []int{4000, 1000}[i%2], i%2 == 0))
	}
	begun := time.Now()
	a.create(asking("between", 1, ""))
	a.victims = append(a.victims, a.bound("between"))
	a.Logf("another tenant's pod was bound after %v", time.Since(begun))
	for i := range 6 {
		if name := fmt.Sprint("many", i); i%2 == 0 {
			a.refused(a.namespace, name, "4001 of its containers have a whole number of CPUs as limits.cpu: at most 256 may")
		}
	}
	a.must(a.client.CoreV1().Pods(a.namespace).DeleteCollection(a.Context(), *metav1.NewDeleteOptions(0), metav1.ListOptions{}))
	a.submit(of("most", api.MostPlaced-1, true))
	if n := len(a.allocation(a.boundOwn("most")).Containers); n != api.MostPlaced {
		a.Errorf("the allocation has %d containers, want %d", n, api.MostPlaced)
	}
	a.entitled = 1
}
