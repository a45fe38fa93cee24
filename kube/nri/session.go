package nri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/nri/pkg/stub"
	"github.com/containerd/nri/pkg/version"
	"github.com/containerd/ttrpc"
)

// service is the plugin's side of one connection. The embedded stub decodes requests and joins
// synchronisations that come in pieces. Its own connection is not used.
type service struct {
	api.PluginService
	runtime string        // set by Configure, the first request
	synced  chan<- string // receives the name of the runtime once
}

func newService(p *plugin, synced chan<- string) (*service, error) {
	made, err := stub.New(p, stub.WithPluginName(name), stub.WithPluginIdx(index),
		stub.WithLogger(stubLogger{p.options.Logger}))
	if err != nil {
		return nil, err
	}
	requests, ok := made.(api.PluginService)
	if !ok {
		return nil, fmt.Errorf("NRI's stub %T does not serve requests", made)
	}
	return &service{PluginService: requests, synced: synced}, nil
}

// Configure subscribes to the events.
func (s *service) Configure(_ context.Context, req *api.ConfigureRequest) (*api.ConfigureResponse, error) {
	s.runtime = req.GetRuntimeName() + " " + req.GetRuntimeVersion()
	return &api.ConfigureResponse{Events: int32(events())}, nil
}

// Synchronize reports the connection once all pieces have arrived.
func (s *service) Synchronize(ctx context.Context, req *api.SynchronizeRequest) (*api.SynchronizeResponse, error) {
	resp, err := s.PluginService.Synchronize(ctx, req)
	if err == nil && !req.GetMore() {
		select {
		case s.synced <- s.runtime:
		default:
		}
	}
	return resp, err
}

// registrationTimeout is the runtime's default for its side.
const registrationTimeout = 5 * time.Second

// serve registers on a connection and answers requests until the connection or ctx ends. It closes
// the connection.
func (s *service) serve(ctx context.Context, conn net.Conn) error {
	mux := multiplex.Multiplex(conn)
	defer mux.Close()
	listener, err := mux.Listen(multiplex.PluginServiceConn)
	if err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	runtime, err := mux.Open(multiplex.RuntimeServiceConn)
	if err != nil {
		return fmt.Errorf("%w: %w", errLost, err)
	}
	server, err := ttrpc.NewServer()
	if err != nil {
		return err
	}
	api.RegisterPluginService(server, s)
	closed := make(chan struct{})
	client := ttrpc.NewClient(runtime, ttrpc.WithOnClose(func() { close(closed) }))
	var serving sync.WaitGroup
	// Serve returns when the server is closed, not when ctx ends: ctx is that of the requests. The
	// reason is known by then.
	serving.Go(func() { _ = server.Serve(ctx, listener) })
	defer func() {
		client.Close()
		server.Close()
		serving.Wait()
	}()

	if err := register(ctx, client); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return fmt.Errorf("%w: it stopped, or dropped the plugin because an answer came too late (see its log)", errLost)
	}
}

func register(ctx context.Context, client *ttrpc.Client) error {
	ctx, cancel := context.WithTimeout(ctx, registrationTimeout)
	defer cancel()
	_, err := api.NewRuntimeClient(client).RegisterPlugin(ctx, &api.RegisterPluginRequest{
		PluginName: name, PluginIdx: index, NRIVersion: version.GetFromBuildInfo(),
	})
	if errors.Is(err, ttrpc.ErrClosed) {
		return fmt.Errorf("%w before it had registered the plugin: it is starting or stopping, or accepts no external plugins", errLost)
	}
	if err != nil {
		return explainRegister(err)
	}
	return nil
}

// stubLogger logs the stub's messages, with information as debug messages.
type stubLogger struct{ log *slog.Logger }

func (l stubLogger) line(ctx context.Context, level slog.Level, format string, args []any) {
	if l.log.Enabled(ctx, level) {
		l.log.Log(ctx, level, fmt.Sprintf(format, args...))
	}
}

func (l stubLogger) Debugf(ctx context.Context, format string, args ...any) {
	l.line(ctx, slog.LevelDebug, format, args)
}

func (l stubLogger) Infof(ctx context.Context, format string, args ...any) {
	l.line(ctx, slog.LevelDebug, format, args)
}

func (l stubLogger) Warnf(ctx context.Context, format string, args ...any) {
	l.line(ctx, slog.LevelWarn, format, args)
}

func (l stubLogger) Errorf(ctx context.Context, format string, args ...any) {
	l.line(ctx, slog.LevelError, format, args)
}
