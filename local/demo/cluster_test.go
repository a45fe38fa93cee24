package demo

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestPods checks that a list of pods is tried again when it was not answered, and not when it was
// rejected.
func TestPods(t *testing.T) {
	lost, rejected := errors.New("net/http: TLS handshake timeout"), apierrors.NewForbidden(corev1.Resource("pods"), "", nil)
	for _, test := range []struct {
		name    string
		answers []error
	}{
		{"answered", []error{lost, lost, nil}},
		{"rejected", []error{lost, rejected}},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := fake.NewClientset(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: namespace}})
			asked := 0
			client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
				asked++
				err := test.answers[asked-1]
				return err != nil, nil, err
			})
			pods, err := (&cluster{typed: client}).pods(t.Context())
			want := test.answers[len(test.answers)-1]
			if !errors.Is(err, want) || asked != len(test.answers) || len(pods) != 1 && err == nil {
				t.Errorf("%d pods, error %v after %d requests, want %v", len(pods), err, asked, want)
			}
		})
	}
}
