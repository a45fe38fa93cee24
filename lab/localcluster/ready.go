package localcluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// probeTimeout bounds one question whether a component is ready. The
// components answer in milliseconds or are busy starting.
const probeTimeout = 2 * time.Second

// answersOK asks a component's health endpoint.
func answersOK(client *http.Client, url string) func(context.Context) error {
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, probeTimeout)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return fmt.Errorf("ask %s: %w", url, err)
		}
		response, err := client.Do(request)
		if err != nil {
			return fmt.Errorf("ask %s: %w", url, err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("ask %s: %s", url, response.Status)
		}
		return nil
	}
}

// acceptsConnections dials a Unix socket in a directory of any depth: the name
// goes through /proc, since a socket's path is limited to 107 bytes.
func acceptsConnections(dir, socket string) func(context.Context) error {
	return func(ctx context.Context) error {
		handle, err := os.Open(dir)
		if err != nil {
			return fmt.Errorf("dial %s: %w", socket, err)
		}
		defer handle.Close()
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", handle.Fd(), socket))
		if err != nil {
			return fmt.Errorf("dial %s: %w", socket, err)
		}
		return conn.Close()
	}
}

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
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("wait for the default service account: %w", context.Cause(ctx))
		}
	}
}
