package main

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// threadTime is the CPU time that the calling thread has used. Unlike wall time it
// leaves out what else the machine does meanwhile, and what the garbage collector
// does on other threads.
func threadTime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		panic(fmt.Sprintf("peers: the kernel has no CPU clock of a thread: %v", err))
	}
	return time.Duration(t.Nano())
}
