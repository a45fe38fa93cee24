package control

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
)

func TestPhaseOfContainers(t *testing.T) {
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	ended := func(code int32) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}
	}
	plain, ephemeral := nodeplan.Container{}, nodeplan.Container{Ephemeral: true}
	sidecar, init := nodeplan.Container{Role: ledger.RoleSidecar}, nodeplan.Container{Role: ledger.RoleInit}
	for _, test := range []struct {
		what      string
		container nodeplan.Container
		state     corev1.ContainerState
		policy    corev1.RestartPolicy
		want      nodeplan.Phase
	}{
		{"no status yet", plain, corev1.ContainerState{}, corev1.RestartPolicyAlways, nodeplan.Waiting},
		{"runs", plain, running, corev1.RestartPolicyAlways, nodeplan.Running},
		{"in its back-off", plain, waiting, corev1.RestartPolicyAlways, nodeplan.Waiting},
		{"is restarted", plain, ended(0), corev1.RestartPolicyAlways, nodeplan.Waiting},
		{"failed, is restarted", plain, ended(1), corev1.RestartPolicyOnFailure, nodeplan.Waiting},
		{"done", plain, ended(0), corev1.RestartPolicyOnFailure, nodeplan.Ended},
		{"failed for good", plain, ended(1), corev1.RestartPolicyNever, nodeplan.Ended},
		{"init done", init, ended(0), corev1.RestartPolicyAlways, nodeplan.Ended},
		{"init failed, is restarted", init, ended(1), corev1.RestartPolicyAlways, nodeplan.Waiting},
		{"init failed for good", init, ended(1), corev1.RestartPolicyNever, nodeplan.Ended},
		{"sidecar is restarted", sidecar, ended(0), corev1.RestartPolicyNever, nodeplan.Waiting},
		{"ephemeral is not", ephemeral, ended(1), corev1.RestartPolicyAlways, nodeplan.Ended},
	} {
		s := podState{object: &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: test.policy}}}
		if got := s.phase(&test.container, test.state); got != test.want {
			t.Errorf("%s: phase %d, want %d", test.what, got, test.want)
		}
	}
}

// The API server's copy of a static pod has a UID of its own; groups have the kubelet's.
func TestMirrorPods(t *testing.T) {
	mirror := func(uid, hash string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Annotations: map[string]string{
			"kubernetes.io/config.hash": hash, "kubernetes.io/config.mirror": hash}}}
	}
	unmarked := mirror("u4", "0c7f")
	delete(unmarked.Annotations, "kubernetes.io/config.mirror")
	c := New(Config{})
	c.SetPods([]*corev1.Pod{mirror("u1", "0a5f"), mirror("u2", "0a5f"), mirror("u3", "11111111-2222"), unmarked})
	var ids []ledger.PodID
	for _, p := range c.pods {
		ids = append(ids, p.plan.ID)
	}
	if d := cmp.Diff([]ledger.PodID{"0a5f", "u2", "u3", "u4"}, ids); d != "" {
		t.Error(d)
	}
}

func TestEndedPodHoldsNothing(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}, Status: corev1.PodStatus{Phase: corev1.PodFailed,
		ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	if got := newPodState(pod, nil).plan.Containers[0].Phase; got != nodeplan.Ended {
		t.Errorf("phase %d", got)
	}
}

func TestIsResizing(t *testing.T) {
	condition := func(kind corev1.PodConditionType, status corev1.ConditionStatus) corev1.PodStatus {
		return corev1.PodStatus{ObservedGeneration: 2, Conditions: []corev1.PodCondition{{Type: kind, Status: status}}}
	}
	for _, test := range []struct {
		what   string
		status corev1.PodStatus
		want   bool
	}{
		{"the kubelet has not begun with it", corev1.PodStatus{}, false},
		{"nothing is new", corev1.PodStatus{ObservedGeneration: 2}, false},
		{"not seen yet", corev1.PodStatus{ObservedGeneration: 1}, true},
		{"deferred", condition(corev1.PodResizePending, corev1.ConditionTrue), true},
		{"under way", condition(corev1.PodResizeInProgress, corev1.ConditionTrue), true},
		{"over", condition(corev1.PodResizeInProgress, corev1.ConditionFalse), false},
	} {
		if got := isResizing(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: test.status}); got != test.want {
			t.Errorf("%s: %v", test.what, got)
		}
	}
}
