package localnode

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"pinfold.dev/pinfold/test/must"
)

// TestAnswered checks that a request is repeated while it is not answered, and not after it was
// rejected or the context has ended.
func TestAnswered(t *testing.T) {
	lost, rejected := errors.New("http2: client connection lost"), apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, "n")
	for _, test := range []struct {
		name    string
		answers []error
		want    error
	}{
		{"answered", []error{lost, lost, nil}, nil},
		{"rejected", []error{lost, rejected}, rejected},
		{"never answered", []error{lost, lost}, lost},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			asked := 0
			err := Answered(ctx, func() error {
				err := test.answers[asked]
				if asked++; asked == len(test.answers) && errors.Is(err, lost) {
					cancel()
				}
				return err
			})
			if !errors.Is(err, test.want) || asked != len(test.answers) {
				t.Errorf("error %v after %d requests, want %v after %d", err, asked, test.want, len(test.answers))
			}
		})
	}
}

// TestCreate loses answers of the API server before and after it has carried out the request. In
// each case the result is the object as the server has it, but an object that existed before is an
// error.
func TestCreate(t *testing.T) {
	lost := errors.New("http2: client connection lost")
	for _, test := range []struct {
		name            string
		existing        bool
		before, after   bool // lose the request or the answer of the first try
		lostGet         bool // lose the answer to the first read
		wantExistsError bool
	}{
		{name: "answered"},
		{name: "request lost", before: true},
		{name: "answer lost", after: true},
		{name: "answers to both lost", after: true, lostGet: true},
		{name: "exists", existing: true, wantExistsError: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := fake.NewClientset()
			created := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"by": "server"}}}
			asked := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
			if test.existing {
				must.Do(t, client.Tracker().Add(created))
			}
			tries, reads := 0, 0
			client.PrependReactor("create", "namespaces", func(kubetesting.Action) (bool, runtime.Object, error) {
				if tries++; tries > 1 || test.existing {
					return false, nil, nil
				}
				if test.before {
					return true, nil, lost
				}
				must.Do(t, client.Tracker().Add(created))
				if test.after {
					return true, nil, lost
				}
				return true, created, nil
			})
			client.PrependReactor("get", "namespaces", func(kubetesting.Action) (bool, runtime.Object, error) {
				reads++
				return test.lostGet && reads == 1, nil, lost
			})
			have, err := Create(t.Context(), client.CoreV1().Namespaces(), asked)
			if test.wantExistsError {
				if !apierrors.IsAlreadyExists(err) {
					t.Errorf("error %v, want that it exists", err)
				}
				return
			}
			if err != nil || have.Name != "n" {
				t.Fatalf("%v, error %v", have, err)
			}
			if !test.before && have.Labels["by"] != "server" {
				t.Errorf("the result is not the server's object: %v", have)
			}
		})
	}
}
