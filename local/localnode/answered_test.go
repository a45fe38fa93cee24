package localnode

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"pinfold.dev/pinfold/test/must"
)

// TestAnswered checks that a request is repeated while it is not answered, and not after it was
// rejected or the context has ended.
func TestAnswered(t *testing.T) {
	lost, rejected := errors.New("http2: client connection lost"), apierrors.NewNotFound(corev1.Resource("nodes"), "n")
	for _, answers := range [][]error{{lost, apierrors.NewTooManyRequests("later", 1), nil}, {lost, rejected}, {lost, lost}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		asked, want := 0, answers[len(answers)-1]
		err := Answered(ctx, func() error {
			err := answers[asked]
			if asked++; asked == len(answers) && errors.Is(err, lost) {
				cancel()
			}
			return err
		})
		if !errors.Is(err, want) || asked != len(answers) {
			t.Errorf("error %v after %d requests, want %v after %d", err, asked, want, len(answers))
		}
	}
}

// TestCreate loses the answer to a request that the API server has carried out. The result is the
// object as the server has it.
func TestCreate(t *testing.T) {
	client, carriedOut := fake.NewClientset(), false
	client.PrependReactor("create", "namespaces", func(kubetesting.Action) (bool, runtime.Object, error) {
		if carriedOut {
			return false, nil, nil // as usual: it exists
		}
		carriedOut = true
		must.Do(t, client.Tracker().Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"by": "server"}}}))
		return true, nil, errors.New("http2: client connection lost")
	})
	got := must.Get(Create(t.Context(), client.CoreV1().Namespaces(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}))(t)
	if got.Labels["by"] != "server" {
		t.Errorf("the result is not the server's object: %v", got)
	}
}
