package main

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxCPU bounds what one request may ask for.
const maxCPU = 10 * time.Second

// newHandler returns a handler that answers every path with a page of so many
// bytes, after using CPU time: as much as the query's cpu says (?cpu=2.5ms), or
// the default.
func newHandler(size int, cpu time.Duration) http.Handler {
	text := page(size)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		amount := cpu
		if asked := r.URL.Query().Get("cpu"); asked != "" {
			var err error
			if amount, err = time.ParseDuration(asked); err != nil || amount < 0 || amount > maxCPU {
				http.Error(w, fmt.Sprintf("cpu=%q is no duration from 0s to %v", asked, maxCPU), http.StatusBadRequest)
				return
			}
		}
		burn(amount)
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write(text) // the client may have gone
	})
}

// page returns HTML of exactly so many bytes, or the shortest there is.
func page(size int) []byte {
	const head, tail = "<!DOCTYPE html><title>Pinfold</title><p>It works.", "\n"
	return []byte(head + strings.Repeat(" ", max(0, size-len(head)-len(tail))) + tail)
}

// burn uses CPU time, whatever share of a CPU it gets: what counts is the time
// of its own thread (clock_gettime(2), CLOCK_THREAD_CPUTIME_ID), to within some
// microseconds.
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
		panic(fmt.Sprintf("web: the clock of a thread cannot be read: %v", err)) // every Linux has it
	}
	return time.Duration(now.Nano())
}

// spin is a few microseconds of arithmetic.
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
