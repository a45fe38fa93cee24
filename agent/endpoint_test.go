package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
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

// TestReaders: who may read is asked once for a while, and what could not be asked is asked again.
func TestReaders(t *testing.T) {
	var reviews []string // of tokens
	var groups []string  // of the last user
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review struct {
			Spec struct {
				Token  string
				Groups []string
				User   string
			}
		}
		must.Do(t, json.NewDecoder(r.Body).Decode(&review))
		token := review.Spec.Token
		if token != "" {
			reviews = append(reviews, token)
		} else {
			groups = review.Spec.Groups
		}
		if token == "broken" {
			http.Error(w, "no", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":{"authenticated":%v,"allowed":%v,"user":{"username":%q,"groups":["scrapers"]}}}`,
			token != "forged", review.Spec.User == "good", cmp.Or(token, review.Spec.User))
	}))
	defer api.Close()
	client := must.Get(kubernetes.NewForConfig(&rest.Config{Host: api.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}))(t)
	metrics := newReaders(client).authorized(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		header string
		status int
		says   string
	}{
		{"", http.StatusUnauthorized, "send the bearer token"},
		{"Basic Z29vZA==", http.StatusUnauthorized, "send the bearer token"},
		{"Bearer ", http.StatusUnauthorized, "send the bearer token"},
		{"bearer  good", http.StatusOK, ""},
		{"Bearer good", http.StatusOK, ""},
		{"Bearer stranger", http.StatusForbidden, "stranger needs get on the nonResourceURL /metrics"},
		{"Bearer stranger", http.StatusForbidden, "stranger needs get"},
		{"Bearer forged", http.StatusUnauthorized, "send the bearer token"},
		{"Bearer broken", http.StatusInternalServerError, "cannot ask the API server"},
		{"Bearer broken", http.StatusInternalServerError, "cannot ask the API server"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		r.Header.Set("Authorization", c.header)
		w := httptest.NewRecorder()
		metrics.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%q: %d %s, want %d %s", c.header, w.Code, w.Body, c.status, c.says)
		}
	}
	if want := []string{"good", "stranger", "forged", "broken", "broken"}; !slices.Equal(reviews, want) {
		t.Errorf("reviews of %q, want %q", reviews, want)
	}
	if want := []string{"scrapers", "system:authenticated"}; !slices.Equal(groups, want) {
		t.Errorf("a review of groups %q, want %q", groups, want)
	}
}
