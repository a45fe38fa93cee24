package sampler

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
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
func (SystemClock) Alarm(ctx context.Context) (Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a timer: %w", err)
	}
	t := &timer{ctx: ctx, fd: fd, file: os.NewFile(uintptr(fd), "timer")}
	t.stop = context.AfterFunc(ctx, func() {
		_ = t.file.SetReadDeadline(time.Unix(1, 0)) // interrupts a read; fails only if the file is closed
	})
	return t, nil
}

// timer is a timer descriptor; see the package comment.
type timer struct {
	ctx  context.Context
	fd   int // descriptor of file; calling file.Fd would make the file blocking
	file *os.File
	stop func() bool
}

func (t *timer) Wait(until time.Time) error {
	if err := t.ctx.Err(); err != nil {
		return err
	}
	left := time.Until(until)
	if left <= 0 {
		return nil
	}
	if err := unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(left))}, nil); err != nil {
		return fmt.Errorf("set a timer: %w", err)
	}
	var expirations [8]byte
	if _, err := t.file.Read(expirations[:]); err != nil {
		if done := t.ctx.Err(); done != nil {
			return done
		}
		return fmt.Errorf("wait for a timer: %w", err)
	}
	return nil
}

func (t *timer) Close() {
	t.stop()
	_ = t.file.Close() // nothing was written to it
}
