package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"pinfold.dev/pinfold/internal/connlimit"
)

// Bounds of what clients can make the agent keep, whoever they are. A connection takes 64 KiB with
// TLS, so that all together take less than 10 MiB.
const (
	maxConnections = 64
	maxHeader      = 8 << 10 // bytes; the token of a service account has 1 to 2 KiB
	headerTimeout  = 5 * time.Second
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second // a page of metrics has less than 1 MiB
	idleTimeout    = 30 * time.Second // between two requests on a connection
)

// endpoint is an HTTP server at an address. Nil serves nothing.
type endpoint struct {
	flag     string // that names another address
	http     *http.Server
	listener net.Listener
}

// listen listens at the address that a flag names, if any.
func listen(flag, address string, handler http.Handler, certificates *tls.Config, log *slog.Logger) (*endpoint, error) {
	if address == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve at --%s: %w; name another address", flag, err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // a connection of HTTP/2 has any number of requests at a time
	return &endpoint{flag: flag, listener: connlimit.New(listener, maxConnections), http: &http.Server{
		Handler: handler, TLSConfig: certificates, Protocols: protocols, MaxHeaderBytes: maxHeader,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}, nil
}

// serve serves until the context ends.
func (e *endpoint) serve(ctx context.Context) error {
	if e == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = e.http.Close() })
	defer stop()
	serve := e.http.Serve
	if e.http.TLSConfig != nil {
		serve = func(l net.Listener) error { return e.http.ServeTLS(l, "", "") }
	}
	if err := serve(e.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve at --%s: %w", e.flag, err)
	}
	return nil
}

func (e *endpoint) close() error {
	if e == nil {
		return nil
	}
	return e.listener.Close()
}

func (e *endpoint) isLoopback() bool {
	at, ok := e.listener.Addr().(*net.TCPAddr)
	return ok && at.IP.IsLoopback()
}

func (e *endpoint) String() string {
	if e == nil {
		return "not served"
	}
	return e.listener.Addr().String()
}
