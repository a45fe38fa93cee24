package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"pinfold.dev/pinfold/agent/control"
)

// The modes of an agent.
const (
	Enforce = "enforce"
	Observe = "observe"
)

func (o *Options) mode() string {
	if o.Observe {
		return Observe
	}
	return Enforce
}

// Report is what the agent of a machine has to say after each round.
type Report struct {
	Time time.Time `json:"time"`
	Node string    `json:"node"`
	Mode string    `json:"mode"` // Enforce or Observe
	// Hold is set while the agent knows too little to decide, or cannot read the control groups.
	Hold bool `json:"hold"`
	// Pending is what the agent would change if it enforced.
	Pending []control.Pending `json:"pending"`
}

// ErrNoReport reports that no agent has done a round on this machine.
var ErrNoReport = errors.New("no agent runs on this machine, or it has just started")

func reportFile(runDir string) string { return filepath.Join(runDir, "report.json") }

// ReadReport reads what the agent of this machine has reported last.
func ReadReport(o Options) (report Report, err error) {
	name := reportFile(o.withDefaults().RunDir)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return report, fmt.Errorf("%w: %s does not exist; --run-dir names another directory", ErrNoReport, name)
	}
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		return report, fmt.Errorf("read the agent's report %s: %w", name, err)
	}
	return report, nil
}

// save saves the report of a round.
func (r *reports) save() error {
	s := r.get()
	return saveJSON(reportFile(r.RunDir), 0o600, Report{r.Now().UTC().Truncate(time.Second), r.NodeName, r.mode(), s.holding, append([]control.Pending{}, s.pending...)})
}
