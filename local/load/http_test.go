package load

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/test/must"
)

// TestHTTP sends requests to a real server: a page, a redirect, a missing page and a truncated one.
func TestHTTP(t *testing.T) {
	var connections, asked atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, strings.Repeat(r.URL.Query().Get("text"), 10000))
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/page", http.StatusFound) })
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "short")
	})
	server := httptest.NewUnstartedServer(mux)
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	plan := Plan{Batch: 3, Every: 30 * time.Millisecond, Duration: 300 * time.Millisecond, Timeout: time.Minute}
	for path, want := range map[string]map[string]int{
		"/page?text=ten": {},
		"/moved":         {"answered with 302 Found": 30},
		"/absent":        {"answered with 404 Not Found": 30},
		"/cut":           {"unexpected EOF": 30},
	} {
		sender := must.Get(NewHTTP(server.URL + path))(t)
		r, err := Run(t.Context(), plan, sender.Send)
		sender.Close()
		if err != nil || r.Sent != 30 || len(r.Latencies) != 30-r.Failed() {
			t.Errorf("%s: %d sent, %d answered, %v", path, r.Sent, len(r.Latencies), err)
		}
		if diff := cmp.Diff(want, r.Failures); diff != "" {
			t.Errorf("%s: failures (-want +got):\n%s", path, diff)
		}
	}
	if asked.Load() != 30 {
		t.Errorf("the page was requested %d times, want 30: a redirect was followed, or requests are missing", asked.Load())
	}
	// A connection serves several batches; one with a truncated answer is lost.
	if most := int64(3*30 + 30); connections.Load() >= most {
		t.Errorf("%d connections for 120 requests: none was reused", connections.Load())
	}
}

func TestConnectionRefused(t *testing.T) {
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	listener.Close()
	sender := must.Get(NewHTTP("http://" + listener.Addr().String()))(t)
	r, err := Run(t.Context(), Plan{Batch: 2, Every: time.Millisecond, Duration: 3 * time.Millisecond, Timeout: time.Minute}, sender.Send)
	if err != nil || r.Failures["dial: connect: connection refused"] != 6 {
		t.Errorf("%v, failures %v", err, r.Failures)
	}
}

func TestTargets(t *testing.T) {
	for target, want := range map[string]string{
		"http://127.0.0.1:80/?cpu=1ms": "",
		"http://[::1]:80/":             "",
		"http://localhost":             "",
		"http://10.213.0.7":            "",
		"http://[::ffff:10.0.0.1]/":    "",
		"http://192.0.2.1/":            "neither of this machine nor of a private network",
		"http://example.com/":          `must be an IP address or localhost, not "example.com"`,
		"https://127.0.0.1/":           "must begin with http://",
		"127.0.0.1:80":                 "127.0.0.1:80",
		"http://":                      `not ""`,
		"":                             "must begin with http://",
	} {
		_, err := NewHTTP(target)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", target, err, want)
		}
	}
}
