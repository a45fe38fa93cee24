package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrRunning says that another agent works on this machine.
var ErrRunning = errors.New("another pinfold-agent is running on this machine")

// lock takes the machine for this process. The kernel gives it back when the process
// ends, however it does; the file stays, and says who had it last.
func lock(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the run directory: %w; --run-dir names another one", err)
	}
	path := filepath.Join(dir, "agent.lock")
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the machine: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w%s: stop that one first, two would undo each other's writes (lock %s)", ErrRunning, holder(path), path)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := errors.Join(file.Truncate(0), write(file, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		_ = file.Close() // the first error counts
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}

func write(file *os.File, text string) error {
	_, err := file.WriteAt([]byte(text), 0)
	return err
}

func holder(path string) string {
	text, err := os.ReadFile(path)
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}
