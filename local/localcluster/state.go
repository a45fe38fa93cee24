package localcluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/owned"
	"pinfold.dev/pinfold/local/localnode"
	"pinfold.dev/pinfold/local/supervisor"
)

// State is the state of a cluster, which its supervisor writes to DIR/state.json.
type State struct {
	Supervisor int                 `json:"supervisor"` // pid
	Ready      bool                `json:"ready"`
	Step       string              `json:"step,omitempty"` // current step of the start
	Server     string              `json:"server"`         // URL of the API server
	Kubernetes string              `json:"kubernetes"`     // minor version of the control plane
	Kubeconfig string              `json:"kubeconfig"`
	Components []supervisor.Status `json:"components"`
	Problem    string              `json:"problem,omitempty"` // why the cluster ended by itself
}

// Component returns the status of the named component.
func (s State) Component(name string) (supervisor.Status, bool) {
	for _, status := range s.Components {
		if status.Name == name {
			return status, true
		}
	}
	return supervisor.Status{}, false
}

// ErrNotRunning reports that no supervisor has locked the data directory.
var ErrNotRunning = errors.New("no local cluster is running")

func notRunning(dir string) error { return fmt.Errorf("%w in %s", ErrNotRunning, dir) }

// ReadState returns the state of the cluster that runs in a data directory, or ErrNotRunning.
// Before the supervisor has written its first state, which takes milliseconds, only its pid is
// known.
func ReadState(dir string) (State, error) {
	pid, err := holder(dir)
	if err != nil {
		return State{}, err
	}
	state, err := lastState(dir)
	switch {
	case pid == 0 && err == nil && state.Problem != "":
		return State{}, fmt.Errorf("%w; the last one ended by itself: %s", notRunning(dir), state.Problem)
	case pid == 0:
		return State{}, notRunning(dir)
	case errors.Is(err, os.ErrNotExist), err == nil && state.Supervisor != pid:
		return State{Supervisor: pid}, nil
	}
	return state, err
}

// lastState returns the content of state.json, whether or not a cluster is running.
func lastState(dir string) (state State, err error) {
	root, err := owned.Open(dir)
	if err != nil {
		return State{}, fmt.Errorf("read the state: %w", err)
	}
	defer root.Close()
	text, err := owned.ReadFile(root, stateName)
	if err == nil {
		err = json.Unmarshal(text, &state)
	}
	if err != nil {
		return State{}, fmt.Errorf("read the state in %s: %w", dir, err)
	}
	return state, nil
}

// SupervisorLog returns the path of the log of a supervisor without a terminal.
func SupervisorLog(dir string) string { return layout{dir}.path(supervisorLogName) }

// Shutdown asks the supervisor of a data directory to stop its cluster, and waits for the end of
// its process. Then nothing of that cluster can interfere with a new one, unless there is an error.
func Shutdown(ctx context.Context, dir string) error {
	pid, err := holder(dir)
	if err != nil {
		return err
	}
	if pid == 0 {
		return notRunning(dir)
	}
	process, err := os.FindProcess(pid) // a handle, which refers to the same process when its pid is reused
	if err != nil {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	defer func() { _ = process.Release() }() // never fails
	// If the process still holds the lock, the handle refers to the holder and not to a later process
	// with the same pid.
	if again, err := holder(dir); err != nil || again != pid {
		return errors.Join(err, notRunning(dir))
	}
	if err := process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	err = sleep.Until(ctx, 20*time.Millisecond, func() (string, error) {
		ended := 0
		poll := func(handle uintptr) { // it becomes readable at the end (pidfd_open(2))
			ended, _ = unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, 0)
		}
		if err := process.WithHandle(poll); err == nil && ended < 1 { // -1: interrupted by a signal
			return fmt.Sprintf("process %d does not end", pid), nil
		}
		return "", nil // without a handle, it ended before
	})
	if err == nil && localnode.IsChanged(layout{dir}.path(nodeDirName)) {
		err = fmt.Errorf("the cluster in %s has stopped, but did not restore this machine: run pinfold-local down --data-dir %[1]s again", dir)
	}
	return err
}

// Remove removes what a cluster that no longer runs left in its data directory and elsewhere, and
// reports whether there was anything. It logs what it keeps.
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
