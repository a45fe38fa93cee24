package nri

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/wait"
)

// running starts Run. It returns a function that ends it and a channel of its states.
func running(socket string, h Handler) (end func(), states chan State) {
	ctx, cancel := context.WithCancel(context.Background())
	states, ended := make(chan State, 1000), make(chan struct{})
	go func() {
		Run(ctx, Options{Socket: socket, OnState: func(s State) { states <- s }}, h)
		close(ended)
	}()
	return func() { cancel(); <-ended }, states
}

// TestNothingLeft connects and ends many times and checks for leaks.
func TestNothingLeft(t *testing.T) {
	r := newTestRuntime(t)
	r.begin()
	before := runtime.NumGoroutine()
	for range 20 {
		end, states := running(r.socket(), newScript())
		if s := <-states; !s.Connected {
			t.Fatalf("not connected: %v", s.Err)
		}
		end()
	}
	r.end(false)
	wait.True(t, "goroutines end", func() bool { return runtime.NumGoroutine() <= before })
}

// TestEndWhileHandling ends Run during a call: the runtime continues without it, the handler's
// context ends, and Run returns after the handler.
func TestEndWhileHandling(t *testing.T) {
	r, h := newTestRuntime(t), &lingering{began: make(chan struct{})}
	r.begin()
	end, states := running(r.socket(), h)
	<-states
	r.await(1)
	created := make(chan error, 1)
	go func() { created <- r.create(context.Background(), &api.PodSandbox{Id: "p"}, attempt("c")) }()
	<-h.began
	end()
	if !h.over.Load() {
		t.Error("Run returned before the handler")
	}
	if err := <-created; err != nil {
		t.Errorf("the container was not created: %v", err)
	}
}

// lingering is a handler that needs some time after its context has ended.
type lingering struct {
	steady
	began chan struct{}
	over  atomic.Bool
}

func (l *lingering) Create(ctx context.Context, _ Pod, _ Container) (Settings, error) {
	close(l.began)
	<-ctx.Done()
	time.Sleep(200 * time.Millisecond)
	l.over.Store(true)
	return Settings{}, ctx.Err()
}

// TestRefused tests a runtime that rejects the plugin, one that ends between registration and
// configuration, and one that closes the connection at once.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		accept func(net.Conn)
		want   error
	}{
		{"refuses", func(c net.Conn) { serveRuntime(c, func() error { return errors.New("the name is taken") }) }, errRefused},
		{"dies", func(c net.Conn) {
			serveRuntime(c, func() error { time.AfterFunc(20*time.Millisecond, func() { c.Close() }); return nil })
		}, errLost},
		{"hangs up", func(c net.Conn) { c.Close() }, errLost},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := must.Get(os.MkdirTemp("", "nri"))(t)
			defer os.RemoveAll(dir)
			socket := filepath.Join(dir, "s")
			listener := must.Get(net.Listen("unix", socket))(t)
			defer listener.Close()
			var accepted atomic.Int64
			go func() {
				for {
					conn, err := listener.Accept()
					if err != nil {
						return
					}
					accepted.Add(1)
					go test.accept(conn)
				}
			}()
			end, states := running(socket, newScript())
			if s := <-states; s.Connected || !errors.Is(s.Err, test.want) {
				t.Errorf("reported %+v, want %v", s, test.want)
			}
			wait.True(t, "it connects again", func() bool { return accepted.Load() >= 3 })
			end()
			if n := len(states); n != 0 {
				t.Errorf("the same state was reported %d times more", n)
			}
		})
	}
}

// serveRuntime is the runtime's side of a connection up to the registration.
func serveRuntime(conn net.Conn, register func() error) {
	// The multiplexer drops what arrives for a connection before Listen.
	mux := multiplex.Multiplex(conn, multiplex.WithBlockedRead())
	listener, err := mux.Listen(multiplex.RuntimeServiceConn)
	if err != nil {
		return
	}
	mux.Unblock()
	server, err := ttrpc.NewServer()
	if err != nil {
		return
	}
	api.RegisterRuntimeService(server, registrar(register))
	_ = server.Serve(context.Background(), listener)
}

type registrar func() error

func (r registrar) RegisterPlugin(context.Context, *api.RegisterPluginRequest) (*api.Empty, error) {
	return &api.Empty{}, r()
}

func (r registrar) UpdateContainers(context.Context, *api.UpdateContainersRequest) (*api.UpdateContainersResponse, error) {
	return nil, errors.New("not asked for")
}

func TestExplainDial(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "file")
	must.Do(t, os.WriteFile(plain, nil, 0o600))
	for socket, want := range map[string]error{
		filepath.Join(dir, "none", "s"): errNoSocket,
		plain:                           errNotListening,
		dir + strings.Repeat("x", 200):  errNotListening, // no path of a socket
	} {
		_, err := net.Dial("unix", socket)
		if got := explainDial(socket, err); !errors.Is(got, want) || !strings.Contains(got.Error(), socket) {
			t.Errorf("error %v: got %v, want %v", err, got, want)
		}
	}
	if got := explainDial("s", &net.OpError{Err: os.ErrPermission}); !errors.Is(got, errNotAllowed) {
		t.Errorf("explained as %v", got)
	}
}

// Pauses are between half of the current one and all of it, and use that range.
func TestBackoff(t *testing.T) {
	const nodes = 200
	var of [nodes]backoff
	for _, want := range []time.Duration{100, 200, 400, 800, 1600, 2000, 2000} {
		want *= time.Millisecond
		shortest, longest := want, want/2
		for i := range of {
			pause := of[i].pause()
			shortest, longest = min(shortest, pause), max(longest, pause)
		}
		if shortest < want/2 || shortest > want*6/10 || longest < want*9/10 || longest > want {
			t.Errorf("pauses of %v to %v, want half of %v to all", shortest, longest, want)
		}
	}
	of[0].reset()
	if got := of[0].pause(); got > minPause {
		t.Errorf("%v after a reset", got)
	}
}

// TestManyContainers synchronises more than fits in one message (4 MB).
func TestManyContainers(t *testing.T) {
	r := newTestRuntime(t)
	long := strings.Repeat("x", 30_000)
	for i := range 300 {
		id := fmt.Sprint(i)
		r.pods = append(r.pods, &api.PodSandbox{Id: "p" + id})
		c := attempt("c" + id)
		c.Env = []string{long}
		r.containers = append(r.containers, c)
	}
	r.begin()
	h := newScript()
	h.want("main", Settings{Quota: bandwidth.Unlimited})
	end, states := running(r.socket(), h)
	defer end()
	if s := <-states; !s.Connected {
		t.Fatalf("not connected: %v", s.Err)
	}
	r.await(1)
	calls := h.take()
	if n := strings.Count(calls, "main of"); strings.Count(calls, "synchronize 300 pods") != 1 || n != 300 {
		t.Errorf("synchronised %d containers:\n%.300s", n, calls)
	}
	for _, c := range r.containers {
		if c.Linux.Resources.Cpu.GetQuota().GetValue() != -1 {
			t.Errorf("%s was not updated", c.Id)
		}
	}
}

// TestFollow: only a connection that lasted resets the pauses, and a runtime that does not
// synchronise is reported.
func TestFollow(t *testing.T) {
	for _, test := range []struct {
		name     string
		waits    time.Duration // until synchronised
		lasts    time.Duration // after that
		reported []State
		resumes  time.Duration // the longest next pause
	}{
		{"short", 0, time.Second, []State{{Connected: true, Runtime: "r 1"}}, 800 * time.Millisecond},
		{"long", 0, maxPause, []State{{Connected: true, Runtime: "r 1"}}, minPause},
		{"late", 6 * time.Second, maxPause, []State{{Err: errWaiting}, {Connected: true, Runtime: "r 1"}}, minPause},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var reported []State
				o := Options{OnState: func(s State) { reported = append(reported, s) }}.withDefaults()
				r := &runner{options: o, backoff: backoff{next: 800 * time.Millisecond}}
				synced, ended, lost := make(chan string), make(chan error), errors.New("lost")
				go func() {
					time.Sleep(test.waits)
					synced <- "r 1"
					time.Sleep(test.lasts)
					ended <- lost
				}()
				if err := r.follow(synced, ended); !errors.Is(err, lost) {
					t.Error(err)
				}
				if diff := cmp.Diff(test.reported, reported, cmpopts.EquateErrors()); diff != "" {
					t.Errorf("reported (-want +got)\n%s", diff)
				}
				if got := r.backoff.pause(); got < test.resumes/2 || got > test.resumes {
					t.Errorf("the next pause is %v, want half of %v to all", got, test.resumes)
				}
			})
		})
	}
}
