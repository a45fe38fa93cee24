package localnode

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestWaitReady waits for a node whose API server sometimes does not answer: it fails only if the
// API server rejects a request, or the pod has ended.
func TestWaitReady(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: Name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	timeout := errors.New("net/http: TLS handshake timeout")
	for _, c := range []struct {
		name  string
		fail  error // the first request of each kind
		phase corev1.PodPhase
		want  string // part of the error
	}{
		{"answers", nil, corev1.PodRunning, ""},
		{"no answer at first", timeout, corev1.PodRunning, ""},
		{"too many requests", apierrors.NewTooManyRequests("later", 1), corev1.PodRunning, ""},
		{"forbidden", apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, Name, errors.New("no")), corev1.PodRunning, "forbidden"},
		{"the pod fails", timeout, corev1.PodFailed, "it ended: Evicted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := fake.NewClientset(node)
			failed := map[string]bool{}
			client.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
				if request := action.GetVerb() + action.GetResource().Resource; !failed[request] && c.fail != nil {
					failed[request] = true
					return true, nil, c.fail
				}
				return false, nil, nil
			})
			client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
				pod := action.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
				pod.Status = corev1.PodStatus{Phase: c.phase, Reason: "Evicted"}
				return false, nil, nil
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := WaitReady(ctx, client)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
			pods, _ := client.CoreV1().Pods(probeNamespace).List(ctx, metav1.ListOptions{})
			if err == nil && len(pods.Items) > 0 {
				t.Error("the probe was not deleted")
			}
		})
	}
}
