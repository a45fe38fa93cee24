// Package workload contains the built-in programs of experiments: a web server and batch work.
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

// newHandler returns a handler that answers every path with a page of size bytes, after using CPU
// time: the amount in the query (?cpu=2.5ms), or cpu. With ?hash=BYTES it hashes that many bytes as
// well. That is the same work each time, which takes longer if caches or a core are shared, while an
// amount of CPU time is the same.
func newHandler(size int, cpu time.Duration) http.Handler {
	text := page(size)
	pool := sync.Pool{New: func() any { return new([hashBuffer]byte) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		amount := cpu
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
			hash(buffer[:], bytes)
			pool.Put(buffer)
		}
		burn(amount)
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write(text) // the client may have gone
	})
}

// page returns an HTML page of exactly size bytes, or the shortest page if that is longer.
func page(size int) []byte {
	const head, tail = "<!DOCTYPE html><title>Pinfold</title><p>It works.", "\n"
	return []byte(head + strings.Repeat(" ", max(0, size-len(head)-len(tail))) + tail)
}

// burn uses the given amount of CPU time, accurate to a few microseconds. It measures the CPU time of
// its thread (clock_gettime(2), CLOCK_THREAD_CPUTIME_ID), not elapsed time.
func burn(amount time.Duration) {
	if amount <= 0 {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for end := threadTime() + amount; threadTime() < end; {
		runtime.KeepAlive(spin())
	}
}

func threadTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(fmt.Sprintf("web: read the thread's clock: %v", err)) // every Linux has it
	}
	return time.Duration(now.Nano())
}

// spin computes for a few microseconds.
//
//go:noinline
func spin() uint64 {
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

// hash reads some bytes of a buffer, from the beginning again when it ends.
func hash(buffer []byte, bytes int) {
	for bytes > 0 {
		n := min(bytes, len(buffer))
		sum := sha256.Sum256(buffer[:n])
		buffer[0] ^= sum[0] // so that no work can be left out
		bytes -= n
	}
}

// Web serves pages of size bytes on an address, as newHandler says, until ctx ends. When it is ready
// it prints a line that ends with the address.
func Web(ctx context.Context, address string, size int, cpu time.Duration, out io.Writer) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	fmt.Fprintf(out, "serving %d bytes on %s\n", size, listener.Addr())
	return serve(ctx, listener, newHandler(size, cpu))
}

// serve answers requests until ctx ends, and then waits for pending requests.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
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
