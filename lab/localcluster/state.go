package localcluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"pinfold.dev/pinfold/lab/supervisor"
	"pinfold.dev/pinfold/linux/owned"
)

// State is what a supervisor says about its cluster, in DIR/state.json.
type State struct {
	Supervisor int                 `json:"supervisor"` // pid
	Ready      bool                `json:"ready"`
	Step       string              `json:"step,omitempty"` // what is being done until it is ready
	Server     string              `json:"server"`         // URL of the API server
	Kubeconfig string              `json:"kubeconfig"`
	Components []supervisor.Status `json:"components"`
	Problem    string              `json:"problem,omitempty"` // why it ended, when it ended by itself
}

// Component returns the status of one component, by its name.
func (s State) Component(name string) (supervisor.Status, bool) {
	for _, status := range s.Components {
		if status.Name == name {
			return status, true
		}
	}
	return supervisor.Status{}, false
}

// ErrNotRunning says that no supervisor holds the data directory.
var ErrNotRunning = errors.New("no local cluster is running")

// ReadState returns the state of the cluster that runs in a data directory, or
// ErrNotRunning. Until the supervisor has written its first state, which is a
// matter of milliseconds, only its pid is known.
func ReadState(dir string) (State, error) {
	pid, err := holder(dir)
	if err != nil {
		return State{}, err
	}
	if pid == 0 {
		if last, err := lastState(dir); err == nil && last.Problem != "" {
			return State{}, fmt.Errorf("%w; the last one ended by itself: %s", notRunning(dir), last.Problem)
		}
		return State{}, notRunning(dir)
	}
	state, err := lastState(dir)
	if errors.Is(err, os.ErrNotExist) || (err == nil && state.Supervisor != pid) {
		return State{Supervisor: pid}, nil
	}
	return state, err
}

// lastState returns what state.json says, whether or not anything runs.
func lastState(dir string) (State, error) {
	root, err := owned.Open(dir)
	if err != nil {
		return State{}, fmt.Errorf("read the state: %w", err)
	}
	defer root.Close()
	text, err := owned.ReadFile(root, stateName)
	if err != nil {
		return State{}, fmt.Errorf("read the state: %w", err)
	}
	var state State
	if err := json.Unmarshal(text, &state); err != nil {
		return State{}, fmt.Errorf("read the state: %s: %w", layout{dir}.path(stateName), err)
	}
	return state, nil
}

// SupervisorLog returns the path of the log of a supervisor without a terminal.
func SupervisorLog(dir string) string { return layout{dir}.path(supervisorLogName) }

func (l layout) writeState(state State) error {
	text, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the state: %w", err)
	}
	return writeFile(l.path(stateName), append(text, '\n'))
}
