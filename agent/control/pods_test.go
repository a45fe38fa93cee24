package control

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/nodeplan"
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
		{"in back-off", plain, waiting, corev1.RestartPolicyAlways, nodeplan.Waiting},
		{"is restarted", plain, ended(0), corev1.RestartPolicyAlways, nodeplan.Waiting},
		{"failed, is restarted", plain, ended(1), corev1.RestartPolicyOnFailure, nodeplan.Waiting},
		{"done", plain, ended(0), corev1.RestartPolicyOnFailure, nodeplan.Ended},
		{"failed for good", plain, ended(1), corev1.RestartPolicyNever, nodeplan.Ended},
		{"init done", init, ended(0), corev1.RestartPolicyAlways, nodeplan.Ended},
		{"init failed, is restarted", init, ended(1), corev1.RestartPolicyAlways, nodeplan.Waiting},
		{"init failed for good", init, ended(1), corev1.RestartPolicyNever, nodeplan.Ended},
		{"sidecar is restarted", sidecar, ended(0), corev1.RestartPolicyNever, nodeplan.Waiting},
		{"ephemeral is not restarted", ephemeral, ended(1), corev1.RestartPolicyAlways, nodeplan.Ended},
	} {
		s := podState{object: &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: test.policy}}}
		if got := s.phase(&test.container, test.state); got != test.want {
			t.Errorf("%s: phase %d, want %d", test.what, got, test.want)
		}
	}
}

// TestMirrorPods checks which pods get the cgroups of a static pod. The mirror pod in the API
// server has a UID of its own, and the cgroups have the kubelet's id. Everybody can write the
// annotations of a mirror pod on a pod of their own.
func TestMirrorPods(t *testing.T) {
	mirror := func(namespace, name, hash string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Annotations: map[string]string{
			"kubernetes.io/config.hash": hash, "kubernetes.io/config.mirror": hash, "kubernetes.io/config.source": "file"}}}
	}
	etcd, forged := mirror("kube-system", "etcd", "0a5f"), mirror("default", "etcd", "0a5f")
	forged.UID = "a" // sorted first
	unmarked := mirror("kube-system", "etcd", "0a5f")
	delete(unmarked.Annotations, "kubernetes.io/config.mirror")
	ordinary := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "11111111-2222"}}
	posing := mirror("default", "web2", "11111111-2222")
	known := map[ledger.PodID]types.NamespacedName{"0a5f": {Namespace: "kube-system", Name: "etcd"}}
	for _, test := range []struct {
		what   string
		static map[ledger.PodID]types.NamespacedName
		pods   []*corev1.Pod
		want   []ledger.PodID
	}{
		{"no static pod is known", nil, []*corev1.Pod{etcd}, []ledger.PodID{"uid-etcd"}},
		{"the kubelet runs it", known, []*corev1.Pod{etcd}, []ledger.PodID{"0a5f"}},
		{"beside a forged one", known, []*corev1.Pod{forged, etcd}, []ledger.PodID{"a", "0a5f"}},
		{"a forged one alone", known, []*corev1.Pod{forged}, []ledger.PodID{"a"}},
		{"without the mirror annotation", known, []*corev1.Pod{unmarked}, []ledger.PodID{"uid-etcd"}},
		{"with the UID of another pod", map[ledger.PodID]types.NamespacedName{"11111111-2222": {Namespace: "default", Name: "web2"}},
			[]*corev1.Pod{ordinary, posing}, []ledger.PodID{"11111111-2222", "uid-web2"}},
	} {
		c := New(Config{})
		c.SetPods(test.pods)
		c.SetStaticPods(test.static)
		var ids []ledger.PodID
		for _, p := range c.pods {
			ids = append(ids, p.plan.ID)
		}
		if d := cmp.Diff(test.want, ids); d != "" {
			t.Errorf("%s:\n%s", test.what, d)
		}
	}
}

// TestSandboxProvesMirrorPod checks that the name of a sandbox, which comes from the kubelet,
// proves a mirror pod.
func TestSandboxProvesMirrorPod(t *testing.T) {
	copied := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "etcd", UID: "u", Annotations: map[string]string{
		"kubernetes.io/config.hash": "0a5f", "kubernetes.io/config.mirror": "0a5f"}}}
	c := New(Config{})
	c.SetPods([]*corev1.Pod{copied})
	if !c.NeedsStaticPods() || c.HasPod("0a5f") {
		t.Error("accepted without proof, or the kubelet is not asked")
	}
	c.AddSandbox("0a5f", types.NamespacedName{Namespace: "kube-system", Name: "etcd"})
	if c.NeedsStaticPods() || !c.HasPod("0a5f") {
		t.Error("not accepted, or the kubelet is asked again")
	}
}

// TestForgedMirrorPodIsReported checks that a pod is reported after the kubelet has denied it, and
// that the kubelet is not asked again.
func TestForgedMirrorPodIsReported(t *testing.T) {
	forged := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Annotations: map[string]string{
		"kubernetes.io/config.hash": "0a5f", "kubernetes.io/config.mirror": "0a5f"}}}
	c := New(Config{})
	c.SetPods([]*corev1.Pod{forged})
	if _, notes := c.problems(); len(notes) > 0 {
		t.Errorf("before the kubelet has answered: %v", notes)
	}
	c.SetStaticPods(nil)
	c.SetPods([]*corev1.Pod{forged.DeepCopy()})
	_, notes := c.problems()
	if len(notes) != 1 || notes[0].Reason != NotAStaticPod || notes[0].Pod.UID != "u" || c.NeedsStaticPods() {
		t.Errorf("%v, asked again: %v", notes, c.NeedsStaticPods())
	}
}

func TestContainersOfEndedPod(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}, Status: corev1.PodStatus{Phase: corev1.PodFailed,
		ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}}}
	if got := newPodState(pod, nil, nil).plan.Containers[0].Phase; got != nodeplan.Ended {
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
		{"not seen by the kubelet", corev1.PodStatus{}, false},
		{"no change", corev1.PodStatus{ObservedGeneration: 2}, false},
		{"change not seen", corev1.PodStatus{ObservedGeneration: 1}, true},
		{"deferred", condition(corev1.PodResizePending, corev1.ConditionTrue), true},
		{"in progress", condition(corev1.PodResizeInProgress, corev1.ConditionTrue), true},
		{"completed", condition(corev1.PodResizeInProgress, corev1.ConditionFalse), false},
	} {
		if got := isResizing(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: test.status}); got != test.want {
			t.Errorf("%s: %v", test.what, got)
		}
	}
}
