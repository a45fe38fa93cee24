package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	profile "net/http/pprof" //nolint:gosec // its handlers on the default mux are not served
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/internal/filewatch"
	"pinfold.dev/pinfold/kube/access"
)

// idleTimeout is how long a connection may stay without a request.
const idleTimeout = 90 * time.Second

// server serves metrics and health checks.
type server struct {
	http     *http.Server
	listener net.Listener // nil if nothing is served
	address  string       // of listener, or "not served"
	// observe records the duration of a round.
	observe func(time.Duration)
}

// newServer listens at the address in the agent's options, if any.
func newServer(a *agent) (*server, error) {
	registry, duration := newRegistry(a)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s := &server{observe: func(d time.Duration) { duration.Observe(d.Seconds()) }, address: "not served"}
	if a.Listen == "" {
		return s, nil
	}
	guard := func(h http.Handler) http.Handler { return h }
	debug := slog.NewLogLogger(a.Log.Handler(), slog.LevelDebug)
	s.http = &http.Server{ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: idleTimeout, ErrorLog: debug}
	if a.Secure != nil {
		guard = access.NewGuard(a.Secure.Reviews).Protect
		var err error
		if s.http.TLSConfig, err = a.tlsConfig(); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", guard(promhttp.HandlerFor(registry, scrapeOptions(debug))))
	if a.Secure != nil { // these tell more than metrics, and cost more
		mux.Handle("GET /debug/pprof/", guard(http.HandlerFunc(profile.Index)))
		mux.Handle("GET /debug/pprof/profile", guard(http.HandlerFunc(profile.Profile)))
		mux.Handle("GET /debug/pprof/trace", guard(http.HandlerFunc(profile.Trace)))
		if a.Level != nil {
			mux.Handle("PUT /debug/log-level", guard(http.HandlerFunc(a.setLogLevel)))
		}
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, a.alive()) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, a.ready()) })
	listener, err := net.Listen("tcp", a.Listen)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w; --listen names another address", err)
	}
	s.http.Handler, s.listener, s.address = mux, &boundedListener{Listener: listener, open: map[string]int{}}, listener.Addr().String()
	if at, ok := listener.Addr().(*net.TCPAddr); ok && a.Secure == nil && !at.IP.IsLoopback() {
		a.Log.Warn("everybody who reaches this node can read the metrics, which name its pods: serve them with --metrics-secure", "listen", a.Listen)
	}
	return s, nil
}

// scrapeOptions let a scrape go on where metrics are there twice: a pod that was deleted by force may
// still run when the next one of its name has started. Then those of the former are left out.
func scrapeOptions(debug *log.Logger) promhttp.HandlerOpts {
	return promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, ErrorLog: debug}
}

// setLogLevel sets the level to that in a request.
func (o *Options) setLogLevel(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 100))
	var level slog.Level
	if err == nil {
		err = level.UnmarshalText(bytes.TrimSpace(text))
	}
	if err != nil {
		http.Error(w, "send a level that slog knows: debug, info, warn or error", http.StatusBadRequest)
		return
	}
	o.Level.Set(level)
	o.Log.Log(r.Context(), level, "the log level was set", "level", level)
}

// serve serves until the context ends.
func (s *server) serve(ctx context.Context) error {
	if s.listener == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stop()
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
// /metrics, and likewise profiles (/debug/pprof/) and the log level (put on /debug/log-level). Clients
// send a bearer token, as to the kubelet.
type Secure struct {
	// CertFile and KeyFile are the server's certificate, which is read again when it changes. Without
	// them the agent creates a self-signed certificate.
	CertFile, KeyFile string
	// Reviews asks the API server about tokens and rights. It must be a client of its own: see
	// [access.NewGuard].
	Reviews     kubernetes.Interface
	certificate atomic.Pointer[tls.Certificate] // in use, of CertFile
}

// tlsConfig returns the server's TLS configuration.
func (o *Options) tlsConfig() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.Secure.CertFile != "" {
		if err := o.readCertificate(); err != nil {
			return nil, fmt.Errorf("read the certificate for metrics: %w", err)
		}
		config.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return o.Secure.certificate.Load(), nil }
		return config, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey(host, []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	config.Certificates = []tls.Certificate{pair}
	return config, err
}

// readCertificate reads the certificate. The agent reads it again when it changes.
func (o *Options) readCertificate() error {
	paths := []string{o.Secure.CertFile, o.Secure.KeyFile}
	text, err := filewatch.Read(paths...)
	if err != nil {
		return err
	}
	use := func(text []byte) error {
		pair, err := tls.X509KeyPair(text, text)
		if err == nil {
			o.Secure.certificate.Store(&pair)
		}
		return err
	}
	o.files = append(o.files, file{"certificate " + o.Secure.CertFile, filewatch.File{Paths: paths, Text: text},
		func(_ *control.Control, text []byte) error { return use(text) }})
	return use(text)
}
