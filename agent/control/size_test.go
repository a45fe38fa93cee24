package control

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/need"
)

// largePod returns a pod whose n init containers have ended and whose n main ones run, with its
// cgroups.
func largePod(name string, n int) (*corev1.Pod, kubepods.Pod) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "n"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	groups := kubepods.Pod{Path: "/kubepods/burstable/" + name, UID: name, Tier: "Burstable"}
	for i := range n {
		init, main, id := fmt.Sprint("a-long-name-of-an-init-container-", i), fmt.Sprint("a-long-name-of-a-main-container-", i), fmt.Sprint(name, i)
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: init})
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: main})
		pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, corev1.ContainerStatus{Name: init,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, corev1.ContainerStatus{Name: main,
			ContainerID: "containerd://" + id, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
		groups.Containers = append(groups.Containers, kubepods.Container{Path: groups.Path + "/" + id, ID: id})
		groups.Others = append(groups.Others, fmt.Sprint(groups.Path, "/other", i))
	}
	return pod, groups
}

// node returns a state machine that has observed pods of n containers each.
func largeNode(count, n int) *Control {
	c := New(Config{NodeName: "n"})
	v := groups.View{Layout: cgroup.Layout{CPU: cgroup.V1, CPUSet: cgroup.V1}, Tiers: []string{"/kubepods", "/kubepods/burstable", "/kubepods/besteffort"},
		Settings: map[string]cgroup.Settings{}}
	settings := cgroup.Settings{CPUs: cpuset.Of(0, 1), Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: 100 * time.Millisecond}}
	for _, tier := range v.Tiers {
		v.Settings[tier] = settings
	}
	var objects []*corev1.Pod
	for i := range count {
		pod, groups := largePod(fmt.Sprint("pod", i), n)
		objects, v.Pods = append(objects, pod), append(v.Pods, groups)
		v.Settings[groups.Path] = settings
		for j := range groups.Containers {
			v.Settings[groups.Containers[j].Path], v.Settings[groups.Others[j]] = settings, settings
		}
	}
	c.Step(Event{Machine: topology.Intel104().MustBuild(), Kubelet: &Kubelet{CPUManagerPolicy: "none"}, Pods: objects, Groups: &v})
	return c
}

// What the agent does about a node takes time in proportion to its containers and its pods.
func TestLargePods(t *testing.T) {
	need.This(t, "the speed of this machine")
	t.Run("alike", func(t *testing.T) {
		busy.Linear(t, 250, func(n int) func() {
			pod, _ := largePod("p", n)
			return func() { pods.Alike(pod, pod.DeepCopy()) }
		})
	})
	round := func(c *Control) func() {
		return func() {
			c.Advance(c.Ready(time.Unix(1e9, 0)), Result{})
		}
	}
	t.Run("containers", func(t *testing.T) {
		busy.Linear(t, 100, func(n int) func() { return round(largeNode(1, n)) })
	})
	t.Run("pods", func(t *testing.T) {
		busy.Linear(t, 100, func(n int) func() { return round(largeNode(n, 1)) })
	})
}
