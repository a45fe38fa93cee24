package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
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
	mux := http.NewServeMux()
	if a.Secure != nil && a.Listen != "" {
		readers := newReaders(a.Secure.Reviews)
		metrics = readers.authorized(metrics)
		mux.Handle("GET /debug/pprof/", readers.authorized(http.HandlerFunc(pprof.Index)))
		mux.Handle("GET /debug/pprof/profile", readers.authorized(http.HandlerFunc(pprof.Profile)))
		mux.Handle("GET /debug/pprof/trace", readers.authorized(http.HandlerFunc(pprof.Trace)))
		var err error
		if certificates, s.reload, err = a.Secure.tlsConfig(); err != nil {
			return nil, err
		}
	}
	health := http.NewServeMux()
	health.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, a.alive()) })
	health.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, a.ready()) })
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

// Secure serves metrics, and the profiles of package net/http/pprof, over TLS, to clients that the API
// server allows the verb get on the path. Clients send a bearer token, as to the kubelet.
type Secure struct {
	// CertFile and KeyFile are the server's certificate. They are read again when they change.
	// Without them the agent creates a self-signed certificate.
	CertFile, KeyFile string
	// Reviews asks the API server about tokens and permissions. It must be a client of its own: any
	// client of the server can exhaust its rate limit.
	Reviews kubernetes.Interface
}

// maxPages is how many pages of metrics are made at a time.
const maxPages = 2

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
