package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
)

// server serves metrics and health checks.
type server struct {
	http     *http.Server
	listener net.Listener // nil if nothing is served
	address  string       // of listener, or "not served"
	// observe records the duration of a round.
	observe func(time.Duration)
	// reload keeps the certificate up to date until the context ends.
	reload func(context.Context)
}

// newServer listens at the address in the agent's options, if any.
func newServer(a *agent) (*server, error) {
	registry, duration := newRegistry(a)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s := &server{observe: func(d time.Duration) { duration.Observe(d.Seconds()) }, reload: func(context.Context) {}, address: "not served"}
	if a.Listen == "" {
		return s, nil
	}
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	s.http = &http.Server{ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug)}
	if a.Secure != nil {
		var err error
		if metrics, err = a.Secure.authorized(metrics); err != nil {
			return nil, err
		}
		if s.http.TLSConfig, s.reload, err = a.Secure.tlsConfig(); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, a.alive()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, a.ready()) })
	listener, err := net.Listen("tcp", a.Listen)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w; --listen names another address", err)
	}
	s.http.Handler, s.listener, s.address = mux, listener, listener.Addr().String()
	if at, ok := listener.Addr().(*net.TCPAddr); ok && a.Secure == nil && !at.IP.IsLoopback() {
		a.Log.Warn("everybody who reaches this node can read the metrics, which name its pods: serve them with --metrics-secure", "listen", a.Listen)
	}
	return s, nil
}

// serve serves until the context ends.
func (s *server) serve(ctx context.Context) error {
	if s.listener == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stop()
	go s.reload(ctx)
	serve := s.http.Serve
	if s.http.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
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

// authorized passes those requests on to next that the API server allows.
func (s *Secure) authorized(next http.Handler) (http.Handler, error) {
	backoff := &wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}
	authn, _, err := authenticatorfactory.DelegatingAuthenticatorConfig{TokenAccessReviewClient: s.Reviews.AuthenticationV1(),
		TokenAccessReviewTimeout: reviewTimeout, WebhookRetryBackoff: backoff, CacheTTL: tokenTTL}.New()
	if err != nil {
		return nil, fmt.Errorf("authenticate readers of metrics: %w", err)
	}
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

// admit reports whether a request may be served. If not, it writes the response.
func admit(w http.ResponseWriter, r *http.Request, authn authenticator.Request, authz authorizer.Authorizer) bool {
	path := r.URL.Path
	client, ok, err := authn.AuthenticateRequest(r)
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
