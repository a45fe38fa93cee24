// Package workload contains the programs of images, of the demo and of experiments: a web server and pi.
package workload

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of one request.
const (
	maxCPU  = 10 * time.Second
	maxHash = 1 << 30 // bytes
)

// endTimeout is how long pending requests may take when the server ends.
const endTimeout = 5 * time.Second

// Server is a web server.
type Server struct {
	Size int           // bytes of the page
	CPU  time.Duration // CPU time of a request that asks for none
	// Next, if not "", is the URL of a server that is called for each request, with the same query,
	// before the request is answered.
	Next string
}

// handler returns a handler that answers every path with a page, after using CPU time: the amount
// in the query (?cpu=2.5ms), or s.CPU. With ?hash=BYTES it hashes that many bytes as well. That is
// the same work each time, which takes longer if caches or a core are shared, while an amount of
// CPU time is the same.
func (s Server) handler() http.Handler {
	text := page(s.Size)
	next := &http.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: maxIdle}}
	pool := sync.Pool{New: func() any { return new([hashBuffer]byte) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		amount := s.CPU
		if asked := r.URL.Query().Get("cpu"); asked != "" {
			var err error
			if amount, err = time.ParseDuration(asked); err != nil || amount < 0 || amount > maxCPU {
				http.Error(w, fmt.Sprintf("cpu=%q is not a duration from 0s to %v", asked, maxCPU), http.StatusBadRequest)
				return
			}
		}
		if asked := r.URL.Query().Get("hash"); asked != "" {
			bytes, err := strconv.Atoi(asked)
			if err != nil || bytes < 0 || bytes > maxHash {
				http.Error(w, fmt.Sprintf("hash=%q is not a number of bytes from 0 to %d", asked, maxHash), http.StatusBadRequest)
				return
			}
			buffer := pool.Get().(*[hashBuffer]byte)
			Hash(buffer[:], bytes)
			pool.Put(buffer)
		}
		Burn(amount)
		if s.Next != "" {
			if err := call(next, r, s.Next); err != nil {
				http.Error(w, err.Error(), http.StatusBadGateway)
				return
			}
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write(text) // the client may have gone
	})
}

// maxIdle is how many connections to the next server are kept.
const maxIdle = 1000

// call asks the next server, with the query of a request.
func call(client *http.Client, from *http.Request, next string) error {
	request, err := http.NewRequestWithContext(from.Context(), http.MethodGet, next+"?"+from.URL.RawQuery, http.NoBody)
	if err != nil {
		return fmt.Errorf("call %s: %w", next, err)
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("call %s: %w", next, err)
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return fmt.Errorf("read the answer of %s: %w", next, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered with %s", next, response.Status)
	}
	return nil
}

// page returns an HTML page of exactly size bytes, or the shortest page if that is longer.
func page(size int) []byte {
	const head, tail = "<!DOCTYPE html><title>Pinfold</title><p>It works.", "\n"
	return []byte(head + strings.Repeat(" ", max(0, size-len(head)-len(tail))) + tail)
}

// Burn uses the given amount of CPU time, accurate to a few microseconds, and returns how much it
// has used. It measures the CPU time of its thread (clock_gettime(2), CLOCK_THREAD_CPUTIME_ID), not
// elapsed time.
func Burn(amount time.Duration) (used time.Duration) {
	if amount <= 0 {
		return 0
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for begin := threadTime(); used < amount; used = threadTime() - begin {
		runtime.KeepAlive(Spin())
	}
	return used
}

func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(fmt.Sprintf("web: read the thread's clock: %v", err)) // every Linux has it
	}
	return time.Duration(now.Nano())
}

// Spin computes for a few microseconds.
//
//go:noinline
func Spin() uint64 {
	x := uint64(88172645463325252)
	for range 2000 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// hashBuffer is the memory that a request with ?hash= reads, again and again: less than the level 2
// cache of most CPUs.
const hashBuffer = 256 << 10

// Hash reads some bytes of a buffer, from the beginning again when it ends.
func Hash(buffer []byte, bytes int) {
	for bytes > 0 {
		n := min(bytes, len(buffer))
		sum := sha256.Sum256(buffer[:n])
		buffer[0] ^= sum[0] // so that no work can be left out
		bytes -= n
	}
}

// Serve serves pages on an address until ctx ends. When it is ready it prints a line that ends with
// the address.
func (s Server) Serve(ctx context.Context, address string, out io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	fmt.Fprintf(out, "serving %d bytes on %s\n", s.Size, listener.Addr())
	return serve(ctx, listener, s.handler())
}

// serve answers requests until ctx ends, and then waits for pending requests.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, MaxHeaderBytes: 8 << 10, ReadHeaderTimeout: time.Minute, IdleTimeout: 10 * time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
		return fmt.Errorf("end: %w", err)
	}
	return nil
}
