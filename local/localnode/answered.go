package localnode

import (
	"context"
	"errors"
	"math"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"pinfold.dev/pinfold/internal/sleep"
)

// isUnanswered reports whether an error of a client says that the API server has not answered the
// request, or that a later one may succeed.
func isUnanswered(err error) bool {
	var answer apierrors.APIStatus
	return !errors.As(err, &answer) || apierrors.IsInternalError(err) || apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) ||
		apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err)
}

// Answered sends a request until the API server has answered it, and returns its error, or until
// ctx ends. The request must be one that may be repeated.
func Answered(ctx context.Context, request func() error) error {
	forever := wait.Backoff{Steps: math.MaxInt, Duration: pollInterval}
	return retry.OnError(forever, func(err error) bool { return ctx.Err() == nil && isUnanswered(err) }, request)
}

// Creator is a client for the objects of one kind, in one namespace if they have one.
type Creator[T any] interface {
	Create(context.Context, T, metav1.CreateOptions) (T, error)
	Get(context.Context, string, metav1.GetOptions) (T, error)
}

// Create creates an object that does not exist, and returns it as the API server has it. If it
// exists, an earlier request without an answer has created it.
func Create[T metav1.Object](ctx context.Context, client Creator[T], object T) (created T, err error) {
	err = Answered(ctx, func() error {
		created, err = client.Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			created, err = client.Get(ctx, object.GetName(), metav1.GetOptions{})
		}
		return err
	})
	return created, err
}

// AwaitExists sends a request for an object until the API server has it.
func AwaitExists(ctx context.Context, what string, request func() error) error {
	return sleep.Until(ctx, pollInterval/2, func() (string, error) {
		err := Answered(ctx, request)
		if apierrors.IsNotFound(err) {
			return what + " does not exist", nil
		}
		return "", err
	})
}
