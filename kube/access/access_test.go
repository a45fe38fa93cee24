package access

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// server answers reviews as an API server. Its fields may change between requests.
type server struct {
	users                map[string]authenticationv1.TokenReviewStatus // by token
	rights               map[string]authorizationv1.SubjectAccessReviewStatus
	tokenErr, accessErr  error
	tokenReviews         int
	accessReviews        []authorizationv1.SubjectAccessReviewSpec
	handler              http.Handler
	served, servedTokens []string
}

func newServer() *server {
	s := &server{
		users: map[string]authenticationv1.TokenReviewStatus{
			"prometheus": {Authenticated: true, User: authenticationv1.UserInfo{Username: "prometheus", UID: "7", Groups: []string{"scrapers"},
				Extra: map[string]authenticationv1.ExtraValue{"pod": {"p-0"}}}},
			"stranger":  {Authenticated: true, User: authenticationv1.UserInfo{Username: "stranger", Groups: []string{"system:authenticated"}}},
			"undecided": {Authenticated: true, User: authenticationv1.UserInfo{Username: "undecided"}},
			"nameless":  {Authenticated: true},
			"expired":   {Error: "the token has expired"},
		},
		rights: map[string]authorizationv1.SubjectAccessReviewStatus{
			"prometheus get /metrics": {Allowed: true},
			"undecided get /metrics":  {Allowed: true, Denied: true},
		},
	}
	client := fake.NewClientset()
	client.PrependReactor("create", "tokenreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		s.tokenReviews++
		review := a.(clienttesting.CreateAction).GetObject().(*authenticationv1.TokenReview)
		return true, &authenticationv1.TokenReview{Status: s.users[review.Spec.Token]}, s.tokenErr
	})
	client.PrependReactor("create", "subjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		spec := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).Spec
		s.accessReviews = append(s.accessReviews, spec)
		status := s.rights[spec.User+" "+spec.NonResourceAttributes.Verb+" "+spec.NonResourceAttributes.Path]
		return true, &authorizationv1.SubjectAccessReview{Status: status}, s.accessErr
	})
	s.handler = NewGuard(client).Protect(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.served = append(s.served, r.URL.Path)
		s.servedTokens = append(s.servedTokens, r.Header["Authorization"]...)
	}))
	return s
}

// ask sends a request with the header Authorization and returns the status.
func (s *server) ask(t *testing.T, method, path, authorization string) int {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	r.Header.Set("Authorization", authorization)
	before := len(s.served)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if served := len(s.served) > before; served != (w.Code == http.StatusOK) {
		t.Errorf("%s %s as %q: status %d, served: %t", method, path, authorization, w.Code, served)
	}
	return w.Code
}

func TestGuard(t *testing.T) {
	for _, test := range []struct {
		what, method, path, authorization string
		want                              int
	}{
		{"no token", http.MethodGet, "/metrics", "", http.StatusUnauthorized},
		{"empty token", http.MethodGet, "/metrics", "Bearer ", http.StatusUnauthorized},
		{"two spaces", http.MethodGet, "/metrics", "Bearer  prometheus", http.StatusUnauthorized},
		{"another scheme", http.MethodGet, "/metrics", "Basic prometheus", http.StatusUnauthorized},
		{"the token alone", http.MethodGet, "/metrics", "prometheus", http.StatusUnauthorized},
		{"a forged token", http.MethodGet, "/metrics", "Bearer forged", http.StatusUnauthorized},
		{"an expired token", http.MethodGet, "/metrics", "Bearer expired", http.StatusUnauthorized},
		{"a user without a name", http.MethodGet, "/metrics", "Bearer nameless", http.StatusUnauthorized},
		{"without the right", http.MethodGet, "/metrics", "Bearer stranger", http.StatusForbidden},
		{"allowed and denied", http.MethodGet, "/metrics", "Bearer undecided", http.StatusForbidden},
		{"another verb", http.MethodPut, "/metrics", "Bearer prometheus", http.StatusForbidden},
		{"another path", http.MethodGet, "/metrics/", "Bearer prometheus", http.StatusForbidden},
		{"allowed", http.MethodGet, "/metrics", "Bearer prometheus", http.StatusOK},
		{"a scheme in other letters", http.MethodGet, "/metrics?x=1", "bearer prometheus", http.StatusOK},
	} {
		s := newServer()
		if got := s.ask(t, test.method, test.path, test.authorization); got != test.want {
			t.Errorf("%s: status %d, want %d", test.what, got, test.want)
		}
		if len(s.servedTokens) > 0 {
			t.Errorf("%s: the handler gets the token", test.what)
		}
	}
}

// TestClientCertificate sends a certificate that somebody has verified. Only tokens count.
func TestClientCertificate(t *testing.T) {
	s := newServer()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://node/metrics", nil)
	r.TLS.PeerCertificates = []*x509.Certificate{{Subject: pkix.Name{CommonName: "prometheus"}}}
	r.Header.Set("X-Remote-User", "prometheus")
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized || s.tokenReviews > 0 {
		t.Errorf("status %d, want 401", w.Code)
	}
}

// TestReviewedUser checks that the API server is asked about everything that identifies a user.
func TestReviewedUser(t *testing.T) {
	s := newServer()
	s.ask(t, http.MethodGet, "/metrics", "Bearer prometheus")
	s.ask(t, http.MethodGet, "/metrics", "Bearer stranger")
	if len(s.accessReviews) != 2 {
		t.Fatalf("%d reviews, want 2", len(s.accessReviews))
	}
	first, second := s.accessReviews[0], s.accessReviews[1]
	if first.UID != "7" || !slices.Equal(first.Groups, []string{"scrapers", "system:authenticated"}) || !slices.Equal(first.Extra["pod"], []string{"p-0"}) {
		t.Errorf("reviewed %+v", first)
	}
	if !slices.Equal(second.Groups, []string{"system:authenticated"}) {
		t.Errorf("reviewed %+v", second)
	}
}

// TestCache checks how long answers are used.
func TestCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		step := func(after time.Duration, token string, status, tokenReviews, accessReviews int) {
			t.Helper()
			time.Sleep(after)
			got := s.ask(t, http.MethodGet, "/metrics", "Bearer "+token)
			if got != status || s.tokenReviews != tokenReviews || len(s.accessReviews) != accessReviews {
				t.Errorf("status %d after %d and %d reviews, want %d after %d and %d", got, s.tokenReviews, len(s.accessReviews), status, tokenReviews, accessReviews)
			}
		}
		step(0, "prometheus", http.StatusOK, 1, 1)
		delete(s.rights, "prometheus get /metrics")
		step(time.Minute, "prometheus", http.StatusOK, 1, 1)
		step(2*time.Minute, "prometheus", http.StatusOK, 2, 1)
		step(time.Minute, "prometheus", http.StatusOK, 2, 1)
		step(time.Minute+time.Second, "prometheus", http.StatusForbidden, 3, 2) // revoked
		s.rights["prometheus get /metrics"] = authorizationv1.SubjectAccessReviewStatus{Allowed: true}
		step(29*time.Second, "prometheus", http.StatusForbidden, 3, 2)
		step(2*time.Second, "prometheus", http.StatusOK, 3, 3) // granted
		delete(s.users, "prometheus")
		step(2*time.Minute, "prometheus", http.StatusUnauthorized, 4, 3)
		step(time.Minute, "prometheus", http.StatusUnauthorized, 4, 3)
		step(0, "expired", http.StatusUnauthorized, 5, 3)
		step(0, "expired", http.StatusUnauthorized, 6, 3) // the server's error may be temporary
	})
}

// TestFailures checks that an API server that does not answer lets nobody in, that it is asked again
// only after temporary errors, and that errors are not remembered.
func TestFailures(t *testing.T) {
	for _, test := range []struct {
		name  string
		err   error
		times int
	}{
		{"permanent", errors.New("connection refused"), 1},
		{"forbidden", apierrors.NewForbidden(authenticationv1.Resource("tokenreviews"), "", errors.New("no RBAC")), 1},
		{"temporary", apierrors.NewInternalError(errors.New("etcd is slow")), 3},
		{"overloaded", apierrors.NewTooManyRequests("later", 1), 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.tokenErr = test.err
				if got := s.ask(t, http.MethodGet, "/metrics", "Bearer prometheus"); got != http.StatusInternalServerError || s.tokenReviews != test.times {
					t.Errorf("status %d after %d reviews of the token", got, s.tokenReviews)
				}
				s.tokenErr, s.accessErr = nil, test.err
				if got := s.ask(t, http.MethodGet, "/metrics", "Bearer prometheus"); got != http.StatusInternalServerError || len(s.accessReviews) != test.times {
					t.Errorf("status %d after %d reviews of the right", got, len(s.accessReviews))
				}
				s.accessErr = nil
				if got := s.ask(t, http.MethodGet, "/metrics", "Bearer prometheus"); got != http.StatusOK {
					t.Errorf("status %d once the server answers", got)
				}
			})
		})
	}
}

// TestLongPath checks that a path does not stay in memory.
func TestLongPath(t *testing.T) {
	s := newServer()
	path := "/" + strings.Repeat("x", 100_000)
	for range 2 {
		if got := s.ask(t, http.MethodGet, path, "Bearer stranger"); got != http.StatusForbidden {
			t.Errorf("status %d", got)
		}
	}
	if len(s.accessReviews) != 1 {
		t.Errorf("%d reviews, want 1", len(s.accessReviews))
	}
}

// Strangers cannot keep out whose token was accepted before.
func TestStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		get := func(token string) int { return s.ask(t, http.MethodGet, "/metrics", "Bearer "+token) }
		if got := get("prometheus"); got != http.StatusOK {
			t.Fatalf("status %d", got)
		}
		reviewed := s.tokenReviews
		refused := 0
		for i := range 1000 {
			if get(fmt.Sprintf("unknown-%d", i)) == http.StatusTooManyRequests {
				refused++
			}
		}
		if asked := s.tokenReviews - reviewed; asked > strangersBurst || refused != 1000-asked {
			t.Errorf("of 1000 unknown tokens at once, %d were reviewed and %d refused", asked, refused)
		}
		time.Sleep(tokenTTL + time.Millisecond) // the answer has expired
		for i := range 1000 {
			get(fmt.Sprintf("more-%d", i))
		}
		if got := get("prometheus"); got != http.StatusOK {
			t.Errorf("the known token has status %d", got)
		}
		time.Sleep(time.Minute)
		if got := get("stranger"); got != http.StatusForbidden {
			t.Errorf("a minute later an unknown token has status %d", got)
		}
	})
}
