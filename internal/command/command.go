// Package command implements what the programs of bench and deploy share: exit status, usage errors,
// progress and CPU time.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// ErrUsage is wrapped by errors in the command line.
var ErrUsage = errors.New("wrong usage, see -help")

// Main runs a program until it returns or is interrupted. It returns the exit status: 0, 1 on
// failure, 2 on wrong usage.
func Main(name string, run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	if errors.Is(err, ErrUsage) {
		return 2
	}
	return 1
}

// Parse parses flags and rejects all other arguments.
func Parse(flags *flag.FlagSet, args []string) error {
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUsage, err)
	case flags.NArg() > 0:
		return fmt.Errorf("%w: %q is not a flag", ErrUsage, flags.Arg(0))
	}
	return nil
}

// Progress returns a function that prints the current step and the elapsed time, if stderr is a
// terminal.
func Progress(stderr io.Writer) func(step string) {
	begin := time.Now()
	return func(step string) {
		if f, ok := stderr.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			fmt.Fprintf(stderr, "%5.0fs  %s\n", time.Since(begin).Seconds(), step)
		}
	}
}

// CPUTime returns the CPU time of the calling thread (unix.CLOCK_THREAD_CPUTIME_ID) or of the
// process (unix.CLOCK_PROCESS_CPUTIME_ID). Unlike wall-clock time it excludes other load on the
// machine; that of a thread also excludes the garbage collector's other threads.
func CPUTime(clock int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		panic(fmt.Sprintf("read CPU clock %d: %v", clock, err)) // clock_gettime(2): invalid clock only
	}
	return time.Duration(t.Nano())
}
