package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler/waiting"
)

// Events that can make a refused pod fit queue it again, and others do not.
func TestQueueingHints(t *testing.T) {
	waiting, plain := askingPod("waiting", 2), askingPod("plain", 0)
	allocated := askingPod("allocated", 2)
	raised := allocated.DeepCopy()
	raised.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("3")
	silent := allocated.DeepCopy()
	delete(silent.Annotations, api.CPUSetSchedulerAnnotation)
	running := allocated.DeepCopy()
	running.Status.Phase = corev1.PodRunning
	edited := waiting.DeepCopy()
	edited.Annotations[api.CPUPolicyAnnotation] = "static"
	retried := waiting.DeepCopy()
	retried.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}

	// A resize of the pod's own resources frees CPUs once the kubelet has carried it out.
	resizing := askingPod("resizing", 0)
	resizing.Spec.Resources = &corev1.ResourceRequirements{Requests: cpus("1")}
	resizing.Status.Resources = &corev1.ResourceRequirements{Requests: cpus("3")}
	resizing.Status.AllocatedResources = cpus("1")
	resized := resizing.DeepCopy()
	resized.Status.Resources.Requests = cpus("1")

	node := nodeInfoOf("n", 8).Node()
	heartbeat := node.DeepCopy()
	heartbeat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	grown := node.DeepCopy()
	grown.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("9")}
	grown.Status.Capacity = grown.Status.Allocatable

	for _, test := range []struct {
		name     string
		hint     fwk.QueueingHintFn
		pod      *corev1.Pod
		old, new any
		want     fwk.QueueingHint
	}{
		{"a pod with CPUs was deleted", afterPodLeft, waiting, allocated, nil, fwk.Queue},
		{"a pod without requests was deleted", afterPodLeft, waiting, plain, nil, fwk.QueueSkip},
		{"a pod no longer asks", afterAssignedPodChanged, waiting, allocated, silent, fwk.Queue},
		{"a pod was scaled down", afterAssignedPodChanged, waiting, askingPod("a", 2), askingPod("a", 1), fwk.Queue},
		{"a pod was scaled up", afterAssignedPodChanged, waiting, allocated, raised, fwk.QueueSkip},
		{"a pod as a whole was scaled down", afterAssignedPodChanged, waiting, resizing, resized, fwk.Queue},
		{"a limit differs from the allocation", afterAssignedPodChanged, waiting, askingPod("a", 1), askingPod("a", 2), fwk.Queue},
		{"a pod reported its status", afterAssignedPodChanged, waiting, allocated, running, fwk.QueueSkip},
		{"its own annotations were edited", afterOwnChange, waiting, waiting, edited, fwk.Queue},
		{"its own status was updated", afterOwnChange, waiting, waiting, retried, fwk.QueueSkip},
		{"a new node", afterNodeChanged, waiting, nil, node, fwk.Queue},
		{"a node grew", afterNodeChanged, waiting, node, grown, fwk.Queue},
		{"a node shrank", afterNodeChanged, waiting, grown, node, fwk.QueueSkip},
		{"a node's heartbeat", afterNodeChanged, waiting, node, heartbeat, fwk.QueueSkip},
	} {
		got, err := test.hint(klog.Background(), test.pod, test.old, test.new)
		if err != nil || got != test.want {
			t.Errorf("%s: %v, %v, want %v", test.name, got, err, test.want)
		}
	}
	for name, hint := range map[string]fwk.QueueingHintFn{"pod left": afterPodLeft, "pod changed": afterAssignedPodChanged,
		"own change": afterOwnChange, "node": afterNodeChanged} {
		if got, err := hint(klog.Background(), waiting, "what", "is this"); err == nil || got != fwk.Queue {
			t.Errorf("%s: an object of a wrong type gives %v, %v; want an error and Queue", name, got, err)
		}
	}
}

// Pods that leave return the refused pods to the queue together, not each on its own.
func TestPodsThatLeaveReleaseTogether(t *testing.T) {
	p := &Plugin{shared: &shared{waiting: waiting.New(func(map[string]*corev1.Pod) {}, func(*corev1.Pod) bool { return true }, time.Hour)}}
	for _, left := range []struct {
		pod      *corev1.Pod
		releases bool
	}{{askingPod("plain", 0), false}, {askingPod("a", 2), true}, {askingPod("b", 2), true}} {
		got, err := p.together(afterPodLeft)(klog.Background(), askingPod("waiting", 2), left.pod, nil)
		if err != nil || got != fwk.QueueSkip || p.shared.waiting.Releases() != left.releases {
			t.Errorf("pod %s left: %v, %v, a release is due: %v", left.pod.Name, got, err, p.shared.waiting.Releases())
		}
	}
}

func cpus(amount string) corev1.ResourceList {
	return corev1.ResourceList{"cpu": resource.MustParse(amount)}
}

// A hint for many waiting pods is computed once for each event.
func TestOncePerEvent(t *testing.T) {
	asked := 0
	hint := oncePerEvent(func(_ klog.Logger, _ *corev1.Pod, oldObj, _ any) (fwk.QueueingHint, error) {
		asked++
		if oldObj == nil {
			return fwk.QueueSkip, nil
		}
		return fwk.Queue, nil
	})
	first, second := askingPod("a", 1), askingPod("a", 1)
	for i, event := range []struct {
		before, after any
		want          fwk.QueueingHint
		asked         int
	}{{first, second, fwk.Queue, 1}, {first, second, fwk.Queue, 1}, {second, first, fwk.Queue, 2}, {nil, first, fwk.QueueSkip, 3}, {nil, first, fwk.QueueSkip, 3}, {second, nil, fwk.Queue, 4}} {
		if got, err := hint(klog.Background(), askingPod("waiting", 1), event.before, event.after); got != event.want || err != nil || asked != event.asked {
			t.Errorf("event %d: %v, %v after %d computations, want %v after %d", i, got, err, asked, event.want, event.asked)
		}
	}
}
