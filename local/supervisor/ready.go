package supervisor

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// probeTimeout limits one readiness request. A child that serves answers within milliseconds, but
// on a busy machine kube-apiserver needs seconds for a TLS handshake and its checks, and a request
// that is abandoned costs it as much as one that is not.
const probeTimeout = 15 * time.Second

// Answers returns a function for Spec.Ready that succeeds when url answers with status 200.
func Answers(client *http.Client, url string) func(context.Context) error {
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

// Accepts returns a function for Spec.Ready that succeeds when the Unix socket at path accepts a
// connection. The path may have any length: the directory is opened and named through /proc,
// because the address of a socket is limited to 107 bytes (unix(7)).
func Accepts(path string) func(context.Context) error {
	return func(ctx context.Context) error {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return fmt.Errorf("dial %s: %w", path, err)
		}
		defer dir.Close()
		var dialer net.Dialer
		connection, err := dialer.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
		if err != nil {
			return fmt.Errorf("dial %s: %w", path, err)
		}
		return connection.Close()
	}
}
