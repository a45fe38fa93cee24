package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authentication/group"
	"k8s.io/apiserver/pkg/authentication/request/bearertoken"
	"k8s.io/apiserver/pkg/authentication/token/cache"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/webhook"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
)

// server serves metrics, and health checks at an address of their own: whoever keeps the metrics
// busy does not make the kubelet restart the agent.
type server struct {
	metrics, health *endpoint
	// observe records the duration of a round.
	observe func(time.Duration)
	// reload keeps the certificate up to date until the context ends.
	reload func(context.Context)
}

// newServer listens at the addresses in the agent's options.
func newServer(a *agent) (*server, error) {
	registry, duration := newRegistry(a)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s := &server{observe: func(d time.Duration) { duration.Observe(d.Seconds()) }, reload: func(context.Context) {}}
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxPages})
	var certificates *tls.Config
	if a.Secure != nil && a.Listen != "" {
		var err error
		if metrics, err = a.Secure.authorized(metrics); err != nil {
			return nil, err
		}
		if certificates, s.reload, err = a.Secure.tlsConfig(); err != nil {
			return nil, err
		}
	}
	health := http.NewServeMux()
	health.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, a.alive()) })
	health.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, a.ready()) })
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	var err error
	if s.metrics, err = listen("listen", a.Listen, perSecond, mux, certificates, a.Log); err != nil {
		return nil, err
	}
	if s.health, err = listen("health-listen", a.HealthListen, 0, health, nil, a.Log); err != nil {
		return nil, errors.Join(err, s.metrics.close())
	}
	if s.metrics != nil && a.Secure == nil && !s.metrics.isLoopback() {
		a.reports.dedup.WarnOrClear("metrics", "everybody who reaches this node can read the metrics, which name its pods",
			fmt.Errorf("--listen %s is not loopback: serve them with --metrics-secure", a.Listen))
	}
	return s, nil
}

// serve serves until the context ends.
func (s *server) serve(ctx context.Context) error {
	both, ctx := errgroup.WithContext(ctx)
	both.Go(func() error { return s.metrics.serve(ctx) })
	both.Go(func() error { return s.health.serve(ctx) })
	go s.reload(ctx)
	return both.Wait()
}

func writeHealth(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// Secure serves metrics over TLS, to clients that the API server allows the verb get on the path
// /metrics. Clients send a bearer token, as to the kubelet.
type Secure struct {
	// CertFile and KeyFile are the server's certificate. They are read again when they change.
	// Without them the agent creates a self-signed certificate.
	CertFile, KeyFile string
	// Reviews asks the API server about tokens and permissions. It must be a client of its own: any
	// client of the server can exhaust its rate limit.
	Reviews kubernetes.Interface
}

// How long the API server's answers are cached; the kubelet's defaults. A granted permission takes
// effect within 30 s, a revoked one within 5 min.
const (
	tokenTTL      = 2 * time.Minute
	allowedTTL    = 5 * time.Minute
	deniedTTL     = 30 * time.Second
	reviewTimeout = 5 * time.Second
)

// maxPages is how many pages of metrics are made at a time.
const maxPages = 2

// maxReviews is how many tokens are reviewed at a time: a review outlives the client's connection.
const maxReviews = 4

var errBusy = errors.New("too many unknown tokens at a time: try again")

// authorized passes those requests on to next that the API server allows.
func (s *Secure) authorized(next http.Handler) (http.Handler, error) {
	backoff := &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}
	reviews, err := webhook.NewFromInterface(s.Reviews.AuthenticationV1(), nil, *backoff, reviewTimeout, webhook.AuthenticatorMetrics{
		RecordRequestTotal: authenticatorfactory.RecordRequestTotal, RecordRequestLatency: authenticatorfactory.RecordRequestLatency})
	if err != nil {
		return nil, fmt.Errorf("authenticate readers of metrics: %w", err)
	}
	authn := group.NewAuthenticatedGroupAdder(bearertoken.New(cache.New(atMost(maxReviews, reviews), false, tokenTTL, tokenTTL)))
	authz, err := authorizerfactory.DelegatingAuthorizerConfig{SubjectAccessReviewClient: s.Reviews.AuthorizationV1(),
		AllowCacheTTL: allowedTTL, DenyCacheTTL: deniedTTL, WebhookRetryBackoff: backoff}.New()
	if err != nil {
		return nil, fmt.Errorf("authorize readers of metrics: %w", err)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if admit(w, r, authn, authz) {
			next.ServeHTTP(w, r)
		}
	}), nil
}

// atMost refuses tokens while n others are reviewed.
func atMost(n int, reviews authenticator.Token) authenticator.Token {
	slots := make(chan struct{}, n)
	return authenticator.TokenFunc(func(ctx context.Context, token string) (*authenticator.Response, bool, error) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			return reviews.AuthenticateToken(ctx, token)
		default:
			return nil, false, errBusy
		}
	})
}

// admit reports whether a request may be served. If not, it writes the response.
func admit(w http.ResponseWriter, r *http.Request, authn authenticator.Request, authz authorizer.Authorizer) bool {
	path := r.URL.Path
	client, ok, err := authn.AuthenticateRequest(r)
	if errors.Is(err, errBusy) {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return false
	}
	if err != nil || !ok {
		http.Error(w, "Unauthorized: send the bearer token of a user or service account that may get "+path, http.StatusUnauthorized)
		return false
	}
	decision, _, err := authz.Authorize(r.Context(), authorizer.AttributesRecord{User: client.User, Verb: "get", Path: path})
	switch {
	case decision == authorizer.DecisionAllow:
		return true
	case err != nil:
		http.Error(w, "cannot ask the API server about the right to get "+path, http.StatusInternalServerError)
	default:
		http.Error(w, fmt.Sprintf("Forbidden: %s needs get on the nonResourceURL %s", client.User.GetName(), path), http.StatusForbidden)
	}
	return false
}

// tlsConfig returns the server's TLS configuration, and a function that reads changed certificate
// files again until the context ends.
func (s *Secure) tlsConfig() (config *tls.Config, reload func(context.Context), err error) {
	config = &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CertFile == "" {
		host, err := os.Hostname()
		if err != nil {
			return nil, nil, fmt.Errorf("make a certificate: %w", err)
		}
		cert, key, err := certutil.GenerateSelfSignedCertKey(host, []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
		if err != nil {
			return nil, nil, fmt.Errorf("make a certificate: %w", err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		config.Certificates = []tls.Certificate{pair}
		return config, func(context.Context) {}, err
	}
	files, err := dynamiccertificates.NewDynamicServingContentFromFiles("metrics", s.CertFile, s.KeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificate for metrics: %w", err)
	}
	config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(files.CurrentCertKeyContent())
		return &pair, err
	}
	return config, func(ctx context.Context) { files.Run(ctx, 1) }, nil
}
