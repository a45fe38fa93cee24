package control

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestAlike checks that exactly the changes of a pod that concern its cgroups count.
func TestAlike(t *testing.T) {
	pod := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "1", Annotations: map[string]string{}, Generation: 1},
			Spec:       corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "main"}}},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: "main",
				ContainerID: "containerd://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
		}
	}
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		alike  bool
	}{
		"version": {func(p *corev1.Pod) { p.ResourceVersion = "7" }, true},
		"ready":   {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = true }, true},
		"probe": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, LastProbeTime: metav1.Now()}}
		}, true},
		"annotation": {func(p *corev1.Pod) { p.Annotations["other"] = "x" }, true},
		"another":    {func(p *corev1.Pod) { p.UID = "2" }, false},
		"restarted":  {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].ContainerID = "containerd://2" }, false},
		"waiting":    {func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = corev1.ContainerState{} }, false},
		"ended":      {func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }, false},
		"resize":     {func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 2, 1 }, false},
		"limit": {func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
		}, false},
		"batch":         {func(p *corev1.Pod) { p.Labels = map[string]string{"pinfold.dev/qos": "BE"} }, false},
		"period":        {func(p *corev1.Pod) { p.Annotations["pinfold.dev/cpu-period"] = "10ms" }, false},
		"burst":         {func(p *corev1.Pod) { p.Annotations["koordinator.sh/cpuBurst"] = `{"policy":"auto"}` }, false},
		"no allocation": {func(p *corev1.Pod) { p.Annotations["cpuset-scheduler"] = "true" }, false},
		"senior": {func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue,
				LastTransitionTime: metav1.NewTime(time.Unix(5, 0))}}
		}, false},
	} {
		before, after := pod(), pod()
		test.change(after)
		if got := New(Config{}).Alike(before, after); got != test.alike {
			t.Errorf("%s: alike %v, want %v", name, got, test.alike)
		}
	}
}
