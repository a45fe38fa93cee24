package scheduler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/kube/api"
)

// Only a pod that got what was reserved for it needs no audit.
func TestReservationMatches(t *testing.T) {
	all := newReservations()
	waiting := askingPod("pod", 2)
	all.put(waiting, reservation{node: "n", resourceVersion: waiting.ResourceVersion, allocation: "mine"})
	edited := waiting.DeepCopy()
	edited.ResourceVersion = "2"
	for _, test := range []struct {
		name       string
		before     *corev1.Pod
		uid        types.UID
		node       string
		allocation string
		want       bool
	}{
		{"as decided", waiting, "pod", "n", "mine", true},
		{"on another node", waiting, "pod", "m", "mine", false},
		{"with another allocation", waiting, "pod", "n", "other", false},
		{"without one", waiting, "pod", "n", "", false},
		{"edited between decision and binding", edited, "pod", "n", "mine", false},
		{"a pod without a reservation", waiting, "other", "n", "mine", false},
	} {
		bound := waiting.DeepCopy()
		bound.UID, bound.ResourceVersion, bound.Spec.NodeName = test.uid, "3", test.node
		if test.allocation != "" {
			metav1.SetMetaDataAnnotation(&bound.ObjectMeta, api.AllocationAnnotation, test.allocation)
		}
		if got := all.matches(test.before, bound); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}
