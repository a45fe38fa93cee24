package busy

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// CPUTime returns the CPU time of the calling thread, to the nanosecond. Other clocks of CPU time,
// such as getrusage(2), count a thread that runs only at the kernel's ticks, some milliseconds apart.
func CPUTime() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(fmt.Sprintf("busy: read the thread's clock: %v", err)) // every Linux has it
	}
	return time.Duration(now.Nano())
}
