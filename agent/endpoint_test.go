package agent

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/test/must"
)

// TestEndpointBounds checks that clients without credentials cannot make the agent keep more than
// its bounds, nor keep others out.
func TestEndpointBounds(t *testing.T) {
	served := make(chan context.Context, 10)
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		served <- r.Context()
		if r.URL.Path == "/held" {
			<-r.Context().Done()
		}
	})
	e := must.Get(listen("listen", "127.0.0.1:0", 0, handler, nil, slog.New(slog.DiscardHandler)))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		must.Do(t, <-ended)
	})
	dial := func() net.Conn {
		c := must.Get(net.Dial("tcp", e.String()))(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(path, token string) net.Conn {
		c := dial()
		// The server may answer and close before it has read a long header.
		_, _ = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", path, token)
		return c
	}
	for size, want := range map[int]int{4 << 10: 1, 64 << 10: 0} {
		_, _ = ask("/metrics", strings.Repeat("x", size)).Read(make([]byte, 1)) // the answer, or an end without one
		if len(served) != want {
			t.Errorf("a token of %d KiB is served %d times, want %d", size>>10, len(served), want)
		}
		for len(served) > 0 {
			<-served
		}
	}
	ask("/held", "")
	held := <-served
	for range 2 * maxConnections {
		dial()
	}
	<-held.Done()
	response, err := http.Get("http://" + e.String() + "/metrics")
	must.Do(t, err)
	must.Do(t, response.Body.Close())
}

// TestReviewsInFlight checks that unknown tokens do not wait for others, and that a known one is
// served meanwhile.
func TestReviewsInFlight(t *testing.T) {
	asked, answer := make(chan bool, 100), make(chan bool)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
			asked <- true
			<-answer
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"status":{"authenticated":true,"allowed":true,"user":{"username":"prometheus"}}}`)
	}))
	defer api.Close()
	reviews := must.Get(kubernetes.NewForConfig(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}))(t)
	metrics := newReaders(reviews).authorized(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	ask := func(ctx context.Context, token string) int {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/metrics", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		metrics.ServeHTTP(w, r)
		return w.Code
	}
	go func() { answer <- true }()
	if code := ask(t.Context(), "known"); code != http.StatusOK {
		t.Errorf("a token that is reviewed: %d", code)
	}
	<-asked
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i := range maxReviews {
		ask(gone, fmt.Sprint("unknown", i))
		<-asked
	}
	if known, another := ask(t.Context(), "known"), ask(t.Context(), "another"); known != http.StatusOK || another != http.StatusServiceUnavailable {
		t.Errorf("during %d reviews of clients that left: %d for a known token, %d for another", maxReviews, known, another)
	}
	close(answer)
}
