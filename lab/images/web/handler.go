package main

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxCPU is the most CPU time of one request.
const maxCPU = 10 * time.Second

// newHandler returns a handler that answers every path with a page of size bytes, after using CPU
// time: the amount in the query (?cpu=2.5ms), or cpu.
func newHandler(size int, cpu time.Duration) http.Handler {
	text := page(size)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		amount := cpu
		if asked := r.URL.Query().Get("cpu"); asked != "" {
			var err error
			if amount, err = time.ParseDuration(asked); err != nil || amount < 0 || amount > maxCPU {
				http.Error(w, fmt.Sprintf("cpu=%q is not a duration from 0s to %v", asked, maxCPU), http.StatusBadRequest)
				return
			}
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
