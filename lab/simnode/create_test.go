package simnode

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestPoll checks that waiting goes on after requests that were not answered, and ends when one is
// rejected or the context ends.
func TestPoll(t *testing.T) {
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
			err := poll(ctx, 1, "nodes", func() (bool, error) {
				err := test.answers[asked]
				if asked++; asked == len(test.answers) && errors.Is(err, lost) {
					cancel()
				}
				return err == nil, err
			})
			if !errors.Is(err, test.want) || asked != len(test.answers) {
				t.Errorf("error %v after %d requests, want %v after %d", err, asked, test.want, len(test.answers))
			}
		})
	}
}
