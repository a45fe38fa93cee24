package agent

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"pinfold.dev/pinfold/test/must"
)

// TestEndpointBounds checks that clients without credentials cannot make the agent keep more than
// its bounds.
func TestEndpointBounds(t *testing.T) {
	var served atomic.Int64
	handler := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })
	e := must.Get(listen("listen", "127.0.0.1:0", handler, nil, slog.New(slog.DiscardHandler)))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		must.Do(t, <-ended)
	})
	dial := func() net.Conn {
		c := must.Get(net.Dial("tcp", e.String()))(t)
		t.Cleanup(func() { _ = c.Close() }) // possibly once more
		return c
	}
	ask := func(c net.Conn, header string) int {
		// The server may answer and close before it has read a long header.
		_, _ = fmt.Fprintf(c, "GET /metrics HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", header)
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return 0
		}
		must.Do(t, response.Body.Close())
		return response.StatusCode
	}
	for size, want := range map[int]int64{4 << 10: 1, 64 << 10: 0} {
		served.Store(0)
		c := dial()
		if got := ask(c, strings.Repeat("x", size)); served.Load() != want {
			t.Errorf("a token of %d KiB: status %d, served %d times, want %d", size>>10, got, served.Load(), want)
		}
		must.Do(t, c.Close())
	}
	var first net.Conn
	for n := range maxConnections {
		c := dial()
		if n == 0 {
			first = c
		}
		if got := ask(c, ""); got != http.StatusOK {
			t.Fatalf("status %d on connection %d", got, n)
		}
	}
	var freed atomic.Bool
	answered := make(chan bool)
	go func() {
		ask(dial(), "")
		answered <- freed.Load()
	}()
	for range 100 { // meanwhile, the others are served
		if got := ask(first, ""); got != http.StatusOK {
			t.Fatalf("status %d on an open connection", got)
		}
	}
	freed.Store(true)
	must.Do(t, first.Close())
	if !<-answered {
		t.Errorf("a connection is served beside %d others", maxConnections)
	}
}
