package uninstall

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/test/must"
)

// TestAgentIsBack: if Helm has brought the agent back and left the cleanup before it, the node is not
// cleaned up, and the agent is ended again.
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
		if patch := must.Get(patchOf(set))(t); (patch != nil) != back {
			t.Errorf("the agent is back: %t: the change is %s", back, patch)
		}
		if why := problem(&corev1.Pod{Spec: pod, Status: ready}); (why == "its agent still runs") != back {
			t.Errorf("the agent is back: %t: its node is not done because %q", back, why)
		}
	}
}

// TestClaims: while a pod has a claim for CPUs, no agent is ended, not even one that serves none. When
// the pod is gone, as the message asks, all are.
func TestClaims(t *testing.T) {
	o := Options{Progress: func(string) {}}
	objects := &appsv1.DaemonSetList{}
	for name, args := range map[string][]string{"first": {"run"}, "second": {"run", "--claims=numa"}} {
		set := appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		set.Spec.Selector = &metav1.LabelSelector{}
		set.Spec.Template.Spec.Containers = []corev1.Container{{Name: agentContainer, Args: args}}
		objects.Items = append(objects.Items, set)
		o.DaemonSets = append(o.DaemonSets, types.NamespacedName{Namespace: "ns", Name: name})
	}
	claim := func(name, driver string) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		c.Status.Allocation = &resourceapi.AllocationResult{}
		c.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{Driver: driver}}
		c.Status.ReservedFor = []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "web"}}
		return c
	}
	unused := claim("unused", dra.Driver)
	unused.Status.ReservedFor = nil
	client := fake.NewClientset(objects, claim("gpu", "gpu.example.com"), unused, claim("cpus", dra.Driver))
	o.Client = client
	changed := func() (names []string) {
		for _, set := range must.Get(client.AppsV1().DaemonSets("ns").List(t.Context(), metav1.ListOptions{}))(t).Items {
			if len(set.Spec.Template.Spec.InitContainers) > 0 {
				names = append(names, set.Name)
			}
		}
		return names
	}
	err := Run(t.Context(), o)
	if err == nil || !strings.Contains(err.Error(), "pod shop/web has a claim for CPUs") || len(changed()) > 0 {
		t.Errorf("with a claim: %v, and %q changed", err, changed())
	}
	must.Do(t, client.ResourceV1().ResourceClaims("shop").Delete(t.Context(), "cpus", metav1.DeleteOptions{}))
	if err := Run(t.Context(), o); err != nil || !slices.Equal(changed(), []string{"first", "second"}) {
		t.Errorf("without: %v, and %q changed", err, changed())
	}
}
