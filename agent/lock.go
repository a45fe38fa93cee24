package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/linux/owned"
)

// ErrRunning says that another agent works on this machine.
var ErrRunning = errors.New("another pinfold-agent is running on this machine")

// lock takes the machine for this process. The kernel gives it back when the process
// ends, however it does; the file stays, and says who had it last. Whoever can open the
// file can lock it, so neither it nor its directory is open to other users.
func lock(dir string) (release func(), err error) {
	if err := protect(dir); err != nil {
		return nil, fmt.Errorf("make the run directory: %w; --run-dir names another one", err)
	}
	path := filepath.Join(dir, "agent.lock")
	file, err := owned.Lock(path)
	if errors.Is(err, owned.ErrHeld) {
		return nil, fmt.Errorf("%w%s: stop that one first, two would undo each other's writes (lock %s; lslocks shows who has it)",
			ErrRunning, holder(path), path)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the machine: %w", err)
	}
	if err := errors.Join(file.Truncate(0), write(file, strconv.Itoa(os.Getpid())+"\n")); err != nil {
		_ = file.Close() // the first error counts
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}

// protect makes the run directory this user's alone. One that another user made first is
// refused.
func protect(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return owned.Protect(dir)
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
