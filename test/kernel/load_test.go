package kernel

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/test/busy"
)

// loadThreads is an environment variable that turns the test binary into a load generator with that
// many threads; see generate.
const loadThreads = "PINFOLD_TEST_LOAD_THREADS"

// Burst is CPU time that one thread uses without a pause. Times are those of the monotonic clock.
type Burst struct {
	Start time.Duration // the planned, then the actual start
	Work  time.Duration // CPU time to use, then the time used
	End   time.Duration // the actual end
}

// A script contains the bursts of each thread.
type script [][]Burst

func TestMain(m *testing.M) {
	threads, err := strconv.Atoi(os.Getenv(loadThreads))
	if err != nil {
		os.Exit(m.Run())
	}
	if err := generate(threads); err != nil {
		fmt.Fprintln(os.Stderr, "generate load:", err)
		os.Exit(1)
	}
}

// generate starts threads, each on one CPU, writes their ids to standard output, and then plays
// scripts from standard input and writes what happened.
func generate(threads int) error {
	// A throttled thread of Go must not block the others.
	runtime.GOMAXPROCS(2*threads + 4)
	debug.SetGCPercent(-1)
	speed := calibrate()
	tids := make([]int, threads)
	todo, done := make([]chan []Burst, threads), make(chan error)
	var started sync.WaitGroup
	for i := range threads {
		todo[i] = make(chan []Burst)
		started.Add(1)
		go func() {
			runtime.LockOSThread()
			tids[i] = unix.Gettid()
			var cpu unix.CPUSet
			cpu.Set(i % runtime.NumCPU())
			err := unix.SchedSetaffinity(0, &cpu)
			started.Done()
			for bursts := range todo[i] {
				if err == nil {
					err = play(bursts, speed)
				}
				done <- err
			}
		}()
	}
	started.Wait()
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	if err := out.Encode(tids); err != nil {
		return err
	}
	for in.More() {
		var s script
		if err := in.Decode(&s); err != nil {
			return err
		}
		for i := range s {
			todo[i] <- s[i]
		}
		for range s {
			if err := <-done; err != nil {
				return err
			}
		}
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

func play(bursts []Burst, speed float64) error {
	for i := range bursts {
		b := &bursts[i]
		for clock(unix.CLOCK_MONOTONIC) < b.Start {
			at := unix.NsecToTimespec(int64(b.Start))
			if err := unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &at, nil); err != nil && err != unix.EINTR {
				return err
			}
		}
		b.Start, b.Work = clock(unix.CLOCK_MONOTONIC), burn(b.Work, speed)
		b.End = clock(unix.CLOCK_MONOTONIC)
	}
	return nil
}

// burn uses CPU time and returns how much. It rarely reads the CPU clock, because the kernel then
// accounts the cgroup's usage, which it otherwise does at ticks. The speed of a CPU varies, for
// example when the other thread of its core becomes busy. So burn first uses four fifths of the
// time, which also measures the current speed.
func burn(work time.Duration, speed float64) time.Duration {
	before := busy.CPUTime()
	used, share := time.Duration(0), 0.8
	for {
		left := work - used
		if left <= 10*time.Microsecond {
			return used
		}
		rounds := float64(left) * share * speed
		spin(int(rounds))
		now := busy.CPUTime() - before
		if took := now - used; took > 100*time.Microsecond {
			speed, share = rounds/float64(took), 0.97
		}
		used = now
	}
}

var spun uint64 // prevents the compiler from removing spin

// spin makes no calls, so that Go's scheduler does not preempt it.
func spin(n int) {
	x := spun
	for range n {
		x = x*6364136223846793005 + 1442695040888963407
	}
	spun = x
}

// calibrate returns the number of rounds of spin per nanosecond.
func calibrate() float64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const rounds = 10_000_000
	best := time.Hour
	for range 3 {
		before := busy.CPUTime()
		spin(rounds)
		best = min(best, busy.CPUTime()-before)
	}
	return rounds / float64(best)
}

func clock(id int32) time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(id, &now); err != nil {
		panic(err)
	}
	return time.Duration(now.Nano())
}
