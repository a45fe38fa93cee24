// Package access asks the API server who may use an HTTP handler:
//
//	guard := access.NewGuard(client)
//	mux.Handle("GET /metrics", guard.Protect(handler))
//
// A client sends a bearer token, as to the kubelet. A TokenReview says whose it is, and a
// SubjectAccessReview whether that user has the method of the request, as a verb, on its path, as a
// nonResourceURL. Nothing else authenticates a client. Every failure refuses the request.
//
// The packages of k8s.io/apiserver for this also link CEL, OpenTelemetry and the client of a proxy,
// 6.4 MB of machine code and tables (1.37, amd64).
package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"
)

// How long the API server's answers are cached; the kubelet's defaults. A granted permission takes
// effect within 30 s, a revoked one within 5 min.
const (
	tokenTTL   = 2 * time.Minute
	allowedTTL = 5 * time.Minute
	deniedTTL  = 30 * time.Second
)

// reviewTimeout bounds one question to the API server with its retries.
const reviewTimeout = 5 * time.Second

// Limits of the reviews of tokens that were not accepted within knownTTL. The client may send at least
// twice as many requests, so strangers cannot keep Prometheus out.
const (
	strangersPerSecond = 2
	strangersBurst     = 10
	knownTTL           = time.Hour
)

// errStrangers reports that too many unknown tokens were sent.
var errStrangers = errors.New("too many unknown tokens")

// cacheSize bounds what clients can make the guard remember, in answers of about 200 bytes.
const cacheSize = 4096

// The groups of users that have proven who they are, and of others.
const (
	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
	anonymous       = "system:anonymous" // a user
)

// Guard protects handlers. Its methods are safe for concurrent use.
type Guard struct {
	client kubernetes.Interface
	// The keys are digests, so that neither tokens nor long paths stay in memory.
	users  *cache.LRUExpireCache // *authenticationv1.UserInfo, nil for a rejected token, by the token
	rights *cache.LRUExpireCache // bool, by the specification of the review
	known  *cache.LRUExpireCache // tokens that were accepted
	// strangers limits the reviews of others.
	strangers flowcontrol.PassiveRateLimiter
}

// NewGuard returns a guard that asks the API server of client. The client must be of the guard's own
// use: clients of the handlers can exhaust its rate limit.
func NewGuard(client kubernetes.Interface) *Guard {
	return &Guard{client, cache.NewLRUExpireCache(cacheSize), cache.NewLRUExpireCache(cacheSize), cache.NewLRUExpireCache(cacheSize),
		flowcontrol.NewTokenBucketPassiveRateLimiter(strangersPerSecond, strangersBurst)}
}

// Protect returns a handler that passes allowed requests on to next, without their token.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, verb := r.URL.Path, strings.ToLower(r.Method)
		user, err := g.user(r.Context(), bearerToken(r.Header))
		if errors.Is(err, errStrangers) {
			http.Error(w, "too many tokens that are not known: try again later", http.StatusTooManyRequests)
			return
		}
		if err != nil {
			http.Error(w, "cannot ask the API server whose token this is", http.StatusInternalServerError)
			return
		}
		if user == nil {
			http.Error(w, "Unauthorized: send the bearer token of a user or service account that may "+verb+" "+path, http.StatusUnauthorized)
			return
		}
		allowed, err := g.allowed(r.Context(), user, verb, path)
		if err != nil {
			http.Error(w, "cannot ask the API server about the right to "+verb+" "+path, http.StatusInternalServerError)
			return
		}
		if !allowed {
			http.Error(w, fmt.Sprintf("Forbidden: %s needs %s on the nonResourceURL %s", user.Username, verb, path), http.StatusForbidden)
			return
		}
		r.Header.Del("Authorization")
		next.ServeHTTP(w, r)
	})
}

// bearerToken returns the token in a request's header, or "" if there is none.
func bearerToken(h http.Header) string {
	scheme, rest, _ := strings.Cut(strings.TrimSpace(h.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	token, _, _ := strings.Cut(rest, " ")
	return token
}

// user returns whose token it is, or nil if the API server does not accept it.
func (g *Guard) user(ctx context.Context, token string) (*authenticationv1.UserInfo, error) {
	if token == "" {
		return nil, nil
	}
	key := sha256.Sum256([]byte(token))
	if known, ok := g.users.Get(key); ok {
		user, _ := known.(*authenticationv1.UserInfo)
		return user, nil
	}
	if _, known := g.known.Get(key); !known && !g.strangers.TryAccept() {
		return nil, errStrangers
	}
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	var answer *authenticationv1.TokenReview
	if err := ask(ctx, func(ctx context.Context) (err error) {
		answer, err = g.client.AuthenticationV1().TokenReviews().Create(ctx, review, metav1.CreateOptions{})
		return err
	}); err != nil {
		return nil, fmt.Errorf("review a token: %w", err)
	}
	status := answer.Status
	if !status.Authenticated || status.User.Username == "" {
		if status.Error == "" { // which may be temporary
			g.users.Add(key, (*authenticationv1.UserInfo)(nil), tokenTTL)
		}
		return nil, nil
	}
	user := withGroup(status.User)
	g.users.Add(key, user, tokenTTL)
	g.known.Add(key, true, knownTTL)
	return user, nil
}

// withGroup adds the group of authenticated users, which a review of a token does not always name.
func withGroup(user authenticationv1.UserInfo) *authenticationv1.UserInfo {
	if user.Username != anonymous && !slices.Contains(user.Groups, authenticated) && !slices.Contains(user.Groups, unauthenticated) {
		user.Groups = append(slices.Clip(user.Groups), authenticated)
	}
	return &user
}

// allowed reports whether a user may do something to a path.
func (g *Guard) allowed(ctx context.Context, user *authenticationv1.UserInfo, verb, path string) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: map[string]authorizationv1.ExtraValue{},
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: verb},
	}}
	for name, values := range user.Extra {
		review.Spec.Extra[name] = authorizationv1.ExtraValue(values)
	}
	text, err := json.Marshal(review.Spec)
	if err != nil {
		return false, fmt.Errorf("review the rights of %s: %w", user.Username, err)
	}
	key := sha256.Sum256(text)
	if known, ok := g.rights.Get(key); ok {
		allowed, _ := known.(bool)
		return allowed, nil
	}
	var answer *authorizationv1.SubjectAccessReview
	if err := ask(ctx, func(ctx context.Context) (err error) {
		answer, err = g.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err
	}); err != nil {
		return false, fmt.Errorf("review the rights of %s: %w", user.Username, err)
	}
	allowed := answer.Status.Allowed && !answer.Status.Denied
	ttl := deniedTTL
	if allowed {
		ttl = allowedTTL
	}
	g.rights.Add(key, allowed, ttl)
	return allowed, nil
}

// ask calls review until it succeeds, fails for good, or has taken too long.
func ask(ctx context.Context, review func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	var last error
	backoff := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}
	err := wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		if last = review(ctx); temporary(last) {
			return false, nil
		}
		return true, last
	})
	return cmp.Or(last, err)
}

// temporary reports whether to ask again after an error, as k8s.io/apiserver does
// (pkg/util/webhook, DefaultShouldRetry, 1.37).
func temporary(err error) bool {
	_, delayed := apierrors.SuggestsClientDelay(err)
	return delayed || utilnet.IsConnectionReset(err) || utilnet.IsHTTP2ConnectionLost(err) ||
		apierrors.IsInternalError(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err)
}
