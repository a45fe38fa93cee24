// Package compute contains the programs of experiments that compute, and reads what they print.
package compute

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/local/workload"
)

// batchBuffer is the memory of one thread of batch work: more than the level 2 cache of most CPUs.
const batchBuffer = 4 << 20

// progressEvery is how often Batch prints its progress.
const progressEvery = 250 * time.Millisecond

// Batch keeps threads busy with hashing until ctx ends. It prints how many MiB per second it
// hashes, in lines as [Goodput] reads them.
func Batch(ctx context.Context, threads int, out io.Writer) {
	runtime.GOMAXPROCS(threads)
	var hashed atomic.Int64
	var group sync.WaitGroup
	for range threads {
		group.Go(func() {
			buffer := make([]byte, batchBuffer)
			for ctx.Err() == nil {
				workload.Hash(buffer, len(buffer))
				hashed.Add(int64(len(buffer)))
			}
		})
	}
	for begun := time.Now(); sleep.For(ctx, progressEvery); begun = time.Now() {
		printGoodput(out, float64(hashed.Swap(0))/(1<<20)/time.Since(begun).Seconds())
	}
	group.Wait()
}

// Pi computes digits of pi, prints how long that took in a line as [Elapsed] reads it, and waits until
// ctx ends.
func Pi(ctx context.Context, digits, threads int, out io.Writer) {
	begun := time.Now()
	workload.Pi(digits, threads)
	fmt.Fprintf(out, elapsedFormat, time.Since(begun).Seconds())
	<-ctx.Done()
}

// Cycles computes on threads for a time, then sleeps, again and again until ctx ends. The first
// cycle begins after a random part of the sleep. After each cycle it prints how much was computed,
// in lines as [Goodput] reads them.
func Cycles(ctx context.Context, threads int, compute, rest time.Duration, out io.Writer) {
	runtime.GOMAXPROCS(threads)
	for wait := rand.N(rest + 1); sleep.For(ctx, wait); wait = rest {
		var computed atomic.Int64
		var group sync.WaitGroup
		end := time.Now().Add(compute)
		for range threads {
			group.Go(func() {
				for time.Now().Before(end) {
					runtime.KeepAlive(workload.Spin())
					computed.Add(1)
				}
			})
		}
		group.Wait()
		printGoodput(out, float64(computed.Load()))
	}
}

// Threads computes in threads that live for a time, one after the other in each of some rows, until ctx
// ends.
func Threads(ctx context.Context, rows int, compute time.Duration) {
	thread := func() {
		runtime.LockOSThread() // and never unlock it: the thread ends with the goroutine
		for end := time.Now().Add(compute); time.Now().Before(end); {
			runtime.KeepAlive(workload.Spin())
		}
	}
	var all sync.WaitGroup
	for range rows {
		all.Go(func() {
			for ctx.Err() == nil {
				var one sync.WaitGroup
				one.Go(thread)
				one.Wait()
			}
		})
	}
	all.Wait()
}

// Lines that programs print for the experiment that has started them.
const (
	goodputFormat = "goodput %g\n" // an amount of work
	elapsedFormat = "elapsed %g\n" // seconds
)

func printGoodput(out io.Writer, amount float64) {
	fmt.Fprintf(out, goodputFormat, amount) // an error means that the experiment has ended
}

// Goodput reads the amount of work from a line that Batch, Cycles or Demand has printed.
func Goodput(line string) (amount float64, ok bool) { return read(line, goodputFormat) }

// Elapsed reads the seconds from a line that Pi has printed.
func Elapsed(line string) (seconds float64, ok bool) { return read(line, elapsedFormat) }

func read(line, format string) (value float64, ok bool) {
	_, err := fmt.Sscanf(line, format, &value)
	return value, err == nil
}
