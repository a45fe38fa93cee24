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

// probeTimeout bounds one question whether a child is ready. Children answer in
// milliseconds or are busy starting.
const probeTimeout = 2 * time.Second

// Answers is for Spec.Ready: the child answers a request with status 200.
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

// Accepts is for Spec.Ready: the child accepts connections on a Unix socket. The path
// may be of any length, though a socket's is limited to 107 bytes (unix(7)): its
// directory goes through /proc.
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
