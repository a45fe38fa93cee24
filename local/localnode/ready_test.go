package localnode

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestWaitReady waits for a node whose API server answers a request of each kind the second time
// only: it fails only if the API server rejects one, or the pod has ended.
func TestWaitReady(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: Name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	timeout := errors.New("net/http: TLS handshake timeout")
	for want, c := range map[string]struct { // by a part of the error
		fail  error // the first request of each kind
		phase corev1.PodPhase
	}{
		"":                  {timeout, corev1.PodRunning},
		"forbidden":         {apierrors.NewForbidden(corev1.Resource("nodes"), Name, nil), corev1.PodRunning},
		"it ended: Evicted": {timeout, corev1.PodFailed},
	} {
		client, failed := fake.NewClientset(node), map[string]bool{}
		client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
			request := action.GetVerb() + action.GetResource().Resource
			first := !failed[request]
			failed[request] = true
			return first, nil, c.fail
		})
		client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
			pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
			pod.Status = corev1.PodStatus{Phase: c.phase, Reason: "Evicted"}
			return false, nil, nil
		})
		err := WaitReady(t.Context(), client)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
		pods, _ := client.CoreV1().Pods(probeNamespace).List(t.Context(), metav1.ListOptions{})
		if err == nil && len(pods.Items) > 0 {
			t.Error("the probe was not deleted")
		}
	}
}
