package uninstall

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/test/must"
)

// newClaim returns a claim for devices of a driver, which a pod uses on a node.
func newClaim(pod, node, driver string) *resourceapi.ResourceClaim {
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: pod + "-claim", Namespace: "default"},
		Status: resourceapi.ResourceClaimStatus{
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
				Results: []resourceapi.DeviceRequestAllocationResult{{Driver: driver, Pool: node, Device: "machine"}}}},
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: pod}},
		},
	}
}

// TestAgentIsBack: if Helm has brought the agent back and left the cleanup before it, the node is not
// cleaned up, and the agent is ended again. Then nothing of the cleanup is put back.
func TestAgentIsBack(t *testing.T) {
	pod := corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: cleanupContainer, Args: []string{"cleanup"}}},
		Containers:     []corev1.Container{{Name: agentContainer, Args: []string{"run", "--host-root=/host"}}},
	}
	ready := corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	for _, back := range []bool{true, false} {
		if !back {
			pod.Containers[0].Args = waitArgs()
		}
		set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set"}}
		set.Spec.Template.Spec = pod
		patch := must.Get(patchOf(set))(t)
		if (patch != nil) != back {
			t.Errorf("the agent is back: %t: the change is %s", back, patch)
		}
		if why := problem(&corev1.Pod{Spec: pod, Status: ready}); (why == "its agent still runs") != back {
			t.Errorf("the agent is back: %t: its node is not done because %q", back, why)
		}
		if !back {
			continue
		}
		var changed struct{ Metadata metav1.ObjectMeta }
		must.Do(t, json.Unmarshal(patch, &changed))
		var was before
		must.Do(t, json.Unmarshal([]byte(changed.Metadata.Annotations[beforeAnnotation]), &was))
		if len(was.Template.Spec.InitContainers) > 0 {
			t.Errorf("it would be put back: %+v", was.Template.Spec.InitContainers)
		}
	}
}

// TestClaimsFirst checks that nothing is changed while pods on nodes of the agents have claims for
// CPUs, that the error and an event name node and pod, and that what an interrupted uninstall has
// changed is put back.
func TestClaimsFirst(t *testing.T) {
	labels := map[string]string{"app": "agent"}
	set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "agent", Namespace: "home", UID: "set"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "agent", Args: []string{"run"}}}}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "agent-1", Namespace: "home", Labels: labels,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, appsv1.SchemeGroupVersion.WithKind("DaemonSet"))}}, Spec: corev1.PodSpec{NodeName: "n1"}}
	unused := newClaim("unused", "n1", dra.Driver)
	unused.Status.ReservedFor = nil
	client := fake.NewClientset(set, pod, newClaim("web", "n1", dra.Driver), newClaim("gpu", "n1", "gpu.example.com"),
		newClaim("elsewhere", "n2", dra.Driver), unused)
	sets := client.AppsV1().DaemonSets("home")
	before := must.Get(sets.Get(t.Context(), "agent", metav1.GetOptions{}))(t)
	for _, interrupted := range []bool{false, true} {
		if interrupted {
			must.Get(sets.Patch(t.Context(), "agent", types.StrategicMergePatchType, must.Get(patchOf(before))(t), metav1.PatchOptions{}))(t)
		}
		err := Run(t.Context(), Options{Client: client, DaemonSets: []types.NamespacedName{{Namespace: "home", Name: "agent"}}, Progress: func(string) {}})
		const want = "1 pod with CPUs of resource claims, which the kubelet cannot end without the agent:\n  n1: pod default/web\ndelete them,"
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Fatalf("it says %v, want %q", err, want)
		}
		if diff := cmp.Diff(before, must.Get(sets.Get(t.Context(), "agent", metav1.GetOptions{}))(t)); diff != "" {
			t.Errorf("interrupted before %v: the DaemonSet (-before +after):\n%s", interrupted, diff)
		}
		events := must.Get(client.CoreV1().Events("home").List(t.Context(), metav1.ListOptions{}))(t).Items
		if len(events) == 0 || events[0].InvolvedObject.Name != "agent" || !strings.Contains(events[0].Message, "n1: pod default/web") {
			t.Errorf("the events are %+v", events)
		}
		must.Do(t, client.CoreV1().Events("home").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	}
}
