package agent

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/client-go/kubernetes"
)

// How long the API server's answers are kept. A granted permission takes effect within 30 s, a
// revoked one within 2 min.
const (
	allowedTTL    = 2 * time.Minute
	deniedTTL     = 30 * time.Second
	reviewTimeout = 5 * time.Second
	// maxAnswers is how many are kept, those asked for last.
	maxAnswers = 1000
	// maxReviews is how many tokens are reviewed at a time: a review outlives the client's connection.
	maxReviews = 4
)

// readers decides who may read metrics, by what the API server says of the bearer of a token. The
// delegating authenticator and authorizer of k8s.io/apiserver do the same, but link an interpreter
// of CEL and OpenTelemetry.
type readers struct {
	reviews kubernetes.Interface
	answers *cache.LRUExpireCache // by the hash of the token
	asking  singleflight.Group
	slots   chan struct{}
}

func newReaders(reviews kubernetes.Interface) *readers {
	return &readers{reviews: reviews, answers: cache.NewLRUExpireCache(maxAnswers), slots: make(chan struct{}, maxReviews)}
}

// answer is the response to a reader. The zero value lets it read.
type answer struct {
	status int
	text   string
}

// authorized passes those requests on to next that the API server allows.
func (r *readers) authorized(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if a := r.answer(request); a.status != 0 {
			http.Error(w, a.text, a.status)
			return
		}
		next.ServeHTTP(w, request)
	})
}

// answer asks the API server, unless it knows the answer.
func (r *readers) answer(request *http.Request) answer {
	path := request.URL.Path
	scheme, token, _ := strings.Cut(request.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return unauthorized(path)
	}
	key := fmt.Sprintf("%x %s", sha256.Sum256([]byte(token)), path)
	if known, ok := r.answers.Get(key); ok {
		return known.(answer)
	}
	found := r.asking.DoChan(key, func() (any, error) {
		select {
		case r.slots <- struct{}{}:
			defer func() { <-r.slots }()
		default:
			return answer{http.StatusServiceUnavailable, "too many unknown tokens at a time: try again"}, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(request.Context()), reviewTimeout)
		defer cancel()
		a, err := r.review(ctx, token, path)
		switch {
		case err != nil:
			return answer{http.StatusInternalServerError, "cannot ask the API server about the right to get " + path}, nil
		case a.status == 0:
			r.answers.Add(key, a, allowedTTL)
		default:
			r.answers.Add(key, a, deniedTTL)
		}
		return a, nil
	})
	select {
	case one := <-found:
		return one.Val.(answer)
	case <-request.Context().Done():
		return answer{http.StatusServiceUnavailable, "the client has left"}
	}
}

// review asks whose token it is, and what that user may do.
func (r *readers) review(ctx context.Context, token, path string) (answer, error) {
	who, err := r.reviews.AuthenticationV1().TokenReviews().Create(ctx,
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return answer{}, err
	case !who.Status.Authenticated:
		return unauthorized(path), nil
	}
	user := who.Status.User
	const authenticated = "system:authenticated" // user.AllAuthenticated of k8s.io/apiserver
	if !slices.Contains(user.Groups, authenticated) {
		user.Groups = append(user.Groups, authenticated)
	}
	extra := map[string]authorizationv1.ExtraValue{}
	for name, values := range user.Extra {
		extra[name] = authorizationv1.ExtraValue(values)
	}
	may, err := r.reviews.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
		NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"}}}, metav1.CreateOptions{})
	switch {
	case err != nil:
		return answer{}, err
	case may.Status.Denied || !may.Status.Allowed:
		return answer{http.StatusForbidden, fmt.Sprintf("Forbidden: %s needs get on the nonResourceURL %s", user.Username, path)}, nil
	}
	return answer{}, nil
}

func unauthorized(path string) answer {
	return answer{http.StatusUnauthorized, "Unauthorized: send the bearer token of a user or service account that may get " + path}
}
