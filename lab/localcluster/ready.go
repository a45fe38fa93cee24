package localcluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/internal/sleep"
)

// waitForServiceAccount returns when pods can be created in the default
// namespace, which admission refuses before its service account exists.
func waitForServiceAccount(ctx context.Context, client kubernetes.Interface) error {
	for {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		if err == nil {
			return nil
		}
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("wait for the default service account: %w", err)
		}
		if !sleep.For(ctx, 50*time.Millisecond) {
			return fmt.Errorf("wait for the default service account: %w", context.Cause(ctx))
		}
	}
}
