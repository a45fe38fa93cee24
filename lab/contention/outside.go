package contention

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/cpuset"
)

// bind keeps this goroutine on a thread of its own, on a CPU. The thread ends with the goroutine.
func bind(cpu cpuset.CPU) {
	runtime.LockOSThread()
	var one unix.CPUSet
	one.Set(int(cpu))
	_ = unix.SchedSetaffinity(0, &one)
}

// spin computes on a CPU until ctx ends.
func spin(ctx context.Context, cpu, _ cpuset.CPU) {
	bind(cpu)
	for ctx.Err() == nil {
		compute()
	}
}

// compute computes for less than a millisecond.
func compute() {
	for range 1_000_000 {
	}
}

// spinRealTime computes on a CPU for a part of each 10 ms, before all threads of the fair class, until ctx
// ends.
func spinRealTime(ctx context.Context, cpu cpuset.CPU, part time.Duration) {
	bind(cpu)
	_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}, 0)
	for ctx.Err() == nil {
		for begin := time.Now(); time.Since(begin) < part; {
			compute()
		}
		time.Sleep(10*time.Millisecond - part)
	}
}

// flood writes to a terminal, on another CPU, until ctx ends: threads of the kernel handle it, on any CPU.
func flood(ctx context.Context, _, other cpuset.CPU) {
	bind(other)
	keyboard, screen, err := openTerminal()
	if err != nil {
		return // the case is without a culprit
	}
	defer keyboard.Close()
	defer screen.Close()
	go func() {
		buffer := make([]byte, 1<<16)
		for {
			if _, err := screen.Read(buffer); err != nil {
				return
			}
		}
	}()
	line := make([]byte, 1<<12)
	for i := range line {
		line[i] = 'x'
		if i%64 == 63 {
			line[i] = '\n'
		}
	}
	for ctx.Err() == nil {
		_ = keyboard.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = keyboard.Write(line) // it may be full
	}
}

// openTerminal opens both sides of a new terminal.
func openTerminal() (keyboard, screen *os.File, err error) {
	if keyboard, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK, 0); err != nil {
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	fd := int(keyboard.Fd())
	_ = unix.SetNonblock(fd, true) // Fd has set it to blocking
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		screen, err = os.OpenFile(fmt.Sprint("/dev/pts/", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = keyboard.Close()
		return nil, nil, fmt.Errorf("open a terminal: %w", err)
	}
	return keyboard, screen, nil
}
