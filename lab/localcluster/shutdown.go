package localcluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Shutdown asks the supervisor of a data directory to end its cluster and
// waits until its process has ended, and nothing of it can interfere with a
// new cluster there.
func Shutdown(ctx context.Context, dir string) error {
	pid, err := holder(dir)
	if err != nil {
		return err
	}
	if pid == 0 {
		return notRunning(dir)
	}
	process, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if errors.Is(err, unix.ESRCH) {
			return notRunning(dir)
		}
		return fmt.Errorf("stop process %d: %w", pid, os.NewSyscallError("pidfd_open", err))
	}
	defer unix.Close(process)
	// What the descriptor refers to is the holder, not a later process with the
	// same number, when it is still the holder now.
	if again, err := holder(dir); err != nil || again != pid {
		return errors.Join(err, notRunning(dir))
	}
	if err := unix.PidfdSendSignal(process, unix.SIGTERM, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("stop process %d: %w", pid, os.NewSyscallError("pidfd_send_signal", err))
	}
	return awaitEnd(ctx, process, pid)
}

// awaitEnd polls: the descriptor of a process becomes readable with its end
// (pidfd_open(2)).
func awaitEnd(ctx context.Context, process, pid int) error {
	const interval = 50 * time.Millisecond
	for ctx.Err() == nil {
		events := []unix.PollFd{{Fd: int32(process), Events: unix.POLLIN}}
		n, err := unix.Poll(events, int(interval.Milliseconds()))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for process %d: %w", pid, os.NewSyscallError("poll", err))
		}
		if n > 0 {
			return nil
		}
	}
	return fmt.Errorf("process %d does not end: %w", pid, context.Cause(ctx))
}

func notRunning(dir string) error { return fmt.Errorf("%w in %s", ErrNotRunning, dir) }

// Remove deletes what a cluster that no longer runs left in a data directory,
// and reports whether there was anything. The logger is told what stays.
func Remove(dir string, logger *slog.Logger) (bool, error) {
	lock, err := lockDirectory(dir)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer lock.release()
	return true, layout{filepath.Dir(lock.file.Name())}.remove(logger)
}
