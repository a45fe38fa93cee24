package localnode

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/internal/sleep"
)

// Unanswered reports whether an error of a client says that the API server has not answered the
// request, or that a later one may succeed.
func Unanswered(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
}

// Answered sends a request until the API server has answered it, and returns its error, or until
// ctx ends. The request must be one that may be repeated.
func Answered(ctx context.Context, request func() error) error {
	for {
		err := request()
		if err == nil || !Unanswered(err) {
			return err
		}
		if !sleep.For(ctx, pollInterval) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

// Creator is a client for the objects of one kind, in one namespace if they have one.
type Creator[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
}

// Create creates an object and returns it as the API server has it. It sends the request until the
// API server has answered it, or until ctx ends. If the object exists after a request without an
// answer, that request has created it.
func Create[T metav1.Object](ctx context.Context, client Creator[T], object T) (created T, err error) {
	repeated := false
	err = Answered(ctx, func() error {
		created, err = client.Create(ctx, object, metav1.CreateOptions{})
		if repeated && apierrors.IsAlreadyExists(err) {
			created, err = client.Get(ctx, object.GetName(), metav1.GetOptions{})
		}
		repeated = true
		return err
	})
	return created, err
}
