package pods

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper/qos"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// TestRestoredPodQuota compares the quota that a cleanup restores to pods' cgroups with the result
// of the kubelet's own code, for random pods.
func TestRestoredPodQuota(t *testing.T) {
	index := placement.NewIndex(topology.Shape{CoresPerLLC: 4}.MustBuild())
	rapid.Check(t, func(t *rapid.T) {
		pod := drawPod(t)
		noQuota := rapid.Bool().Draw(t, "no quota")
		period := time.Duration(rapid.IntRange(1, 1000).Draw(t, "period")) * time.Millisecond
		kubelets := cm.ResourceConfigForPod(pod, !noQuota, uint64(period.Microseconds()), false, kubeletconfig.NoneMemoryReservationPolicy)
		want := bandwidth.Unlimited
		if kubelets.CPUQuota != nil && *kubelets.CPUQuota > 0 {
			want = time.Duration(*kubelets.CPUQuota) * time.Microsecond
		}
		state := newPod(pod)
		ours := nodeplan.Kubelet(nodeplan.State{Index: index, Pods: []nodeplan.Pod{state.Plan},
			Kubelet: nodeplan.KubeletConfig{NoQuota: noQuota, Period: period}}).Pods[0]
		if ours.Quota != want || ours.Quota > 0 && ours.Period != period {
			t.Fatalf("quota %v per %v, the kubelet sets %v per %v, for pod %+v", ours.Quota, ours.Period, want, period, pod.Spec)
		}
	})
}

func drawPod(t *rapid.T) *corev1.Pod {
	amounts := []string{"", "1m", "5m", "100m", "333m", "1", "2500m", "4"}
	draw := func(r *corev1.ResourceRequirements, what string) {
		*r = corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{}}
		limit := rapid.SampledFrom(amounts).Draw(t, what+" limit")
		request := rapid.SampledFrom(amounts).Draw(t, what+" request")
		if limit != "" {
			r.Limits[corev1.ResourceCPU] = resource.MustParse(limit)
			// The API server rejects a request above the limit, and fills in a missing one.
			if q := resource.MustParse("0" + request); request == "" || q.Cmp(r.Limits[corev1.ResourceCPU]) > 0 {
				request = limit
			}
		}
		if request != "" {
			r.Requests[corev1.ResourceCPU] = resource.MustParse(request)
		}
		if rapid.Bool().Draw(t, what+" memory") {
			r.Limits[corev1.ResourceMemory] = resource.MustParse("1Gi")
			r.Requests[corev1.ResourceMemory] = resource.MustParse("1Gi")
		}
	}
	pod := &corev1.Pod{}
	always := corev1.ContainerRestartPolicyAlways
	for range rapid.IntRange(0, 3).Draw(t, "init containers") {
		c := corev1.Container{Name: "i" + string(rune('0'+len(pod.Spec.InitContainers)))}
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = &always
		}
		draw(&c.Resources, c.Name)
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for range rapid.IntRange(1, 3).Draw(t, "containers") {
		c := corev1.Container{Name: "c" + string(rune('0'+len(pod.Spec.Containers)))}
		draw(&c.Resources, c.Name)
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	if rapid.Bool().Draw(t, "pod level") {
		pod.Spec.Resources = &corev1.ResourceRequirements{}
		draw(pod.Spec.Resources, "pod")
	}
	if rapid.Bool().Draw(t, "overhead") {
		pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
	}
	pod.Status.QOSClass = qos.GetPodQOS(pod)
	return pod
}
