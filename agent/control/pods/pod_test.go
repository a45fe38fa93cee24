package pods

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
		"edit":       {func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 2, 1 }, true},
		"resize": {func(p *corev1.Pod) {
			p.Generation, p.Status.ObservedGeneration = 2, 1
			p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
			p.Status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("2")}}
		}, false},
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
		if got := Alike(before, after); got != test.alike {
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
		s := Pod{Object: &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: test.policy}}}
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
		c.SetPods(test.pods, nil)
		c.SetStaticPods(test.static)
		var ids []ledger.PodID
		for _, p := range c.All {
			ids = append(ids, p.Plan.ID)
		}
		if d := cmp.Diff(test.want, ids); d != "" {
			t.Errorf("%s:\n%s", test.what, d)
		}
	}
}

// TestSandboxProvesMirrorPod checks that the name of a sandbox, which comes from the kubelet,
// proves a mirror pod, and that the kubelet is not asked again about a pod that it has denied.
func TestSandboxProvesMirrorPod(t *testing.T) {
	copied := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "etcd", UID: "u", Annotations: map[string]string{
		"kubernetes.io/config.hash": "0a5f", "kubernetes.io/config.mirror": "0a5f"}}}
	c := New(Config{})
	c.SetPods([]*corev1.Pod{copied}, nil)
	if !c.NeedsStaticPods() || c.Get("0a5f") != nil || c.All[0].Forged() != "" {
		t.Error("accepted or denied without proof, or the kubelet is not asked")
	}
	c.SetStaticPods(nil)
	c.SetPods([]*corev1.Pod{copied.DeepCopy()}, nil)
	if c.NeedsStaticPods() || c.All[0].Forged() != "0a5f" {
		t.Error("not denied, or the kubelet is asked again")
	}
	c.AddSandbox("0a5f", types.NamespacedName{Namespace: "kube-system", Name: "etcd"})
	if c.NeedsStaticPods() || c.Get("0a5f") == nil || c.All[0].Forged() != "" {
		t.Error("not accepted, or the kubelet is asked again")
	}
}

// TestLimitInForce checks which limit of a container is enforced while its spec changes, and
// whether the kubelet may be writing another one.
func TestLimitInForce(t *testing.T) {
	amount := func(text string) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(text)}}
	}
	memory := &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("1Gi")}}
	const pending, progress = corev1.PodResizePending, corev1.PodResizeInProgress
	for _, test := range []struct {
		what      string
		seen      int64 // of generation 2
		condition corev1.PodConditionType
		actual    *corev1.ResourceRequirements
		limit     ledger.MilliCPU
		resizing  bool
	}{
		{"no change", 2, "", amount("3"), 3000, false},
		{"an old status after a change", 2, "", amount("1"), 3000, false},
		{"change not seen", 1, "", amount("1"), 1000, true},
		{"another change not seen", 1, "", amount("3"), 3000, false},
		{"not started", 1, "", nil, 3000, false},
		{"a kubelet that does not report generations", 0, "", amount("1"), 3000, false},
		{"deferred or refused", 2, pending, amount("1"), 1000, false},
		{"deferred, and another change not seen", 1, pending, amount("1"), 1000, true},
		{"deferred change of memory", 2, pending, amount("3"), 3000, false},
		{"in progress", 2, progress, amount("1"), 1000, true},
		{"in progress, downwards", 2, progress, amount("9"), 3000, true},
		{"in progress, of memory", 2, progress, amount("3"), 3000, false},
		{"rounded by the kubelet", 1, progress, amount("2999m"), 3000, false},
		{"without a limit in the status", 1, progress, memory, 3000, false},
	} {
		for _, level := range []string{"container", "pod"} {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 2}, Status: corev1.PodStatus{ObservedGeneration: test.seen}}
			if test.condition != "" {
				pod.Status.Conditions = []corev1.PodCondition{{Type: test.condition, Status: corev1.ConditionTrue}}
			}
			pod.Spec.Containers = []corev1.Container{{Name: "app"}}
			if level == "pod" {
				pod.Spec.Resources, pod.Status.Resources = amount("3"), test.actual
			} else {
				pod.Spec.Containers[0].Resources = *amount("3")
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", Resources: test.actual}}
			}
			s := newPod(pod)
			if got := s.Plan.Limit + s.Plan.Containers[0].Limit; got != test.limit || s.Resizing != test.resizing {
				t.Errorf("%s, level %s: limit %v, resizing %v", test.what, level, got, s.Resizing)
			}
		}
	}
}
