package sampler

import (
	"context"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/internal/sleep"
)

// Clock provides time, alarms and CPU time to the sampler.
type Clock interface {
	// Now returns the time. It must have a monotonic reading or come from a clock that is never
	// set.
	Now() time.Time
	// CPU returns the CPU time that the calling thread has used.
	CPU() time.Duration
	// Alarm returns an alarm that stops working when the context ends.
	Alarm(context.Context) (Alarm, error)
}

// Alarm wakes one goroutine.
type Alarm interface {
	// Wait waits until a time, and returns at once if it has passed. It returns an error if the
	// context ends before.
	Wait(until time.Time) error
	Close()
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now returns the time.
func (SystemClock) Now() time.Time { return time.Now() }

// CPU returns the CPU time that the calling thread has used.
func (SystemClock) CPU() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		return 0 // every kernel since 2.6.12 has it
	}
	return time.Duration(t.Nano())
}

// Alarm returns an alarm that stops working when the context ends.
func (SystemClock) Alarm(ctx context.Context) (Alarm, error) { return sleep.NewAlarm(ctx) }
