package localnode

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
)

// savedName is the file, in the node's directory, that says how the machine was.
const savedName = "before.json"

// saved is how the machine was before the node.
type saved struct {
	Run         string       `json:"run"`         // the directory of sockets
	Pods        netip.Prefix `json:"pods"`        // the pods' network
	Sysctls     []setting    `json:"sysctls"`     // kernel settings
	Delegations []setting    `json:"delegations"` // controllers of cgroup v2 roots
	Absent      []string     `json:"absent"`      // directories that did not exist
	Hierarchies []string     `json:"hierarchies"` // control group roots, none with kubepods
}

// save looks at the machine and writes it down. It must come before any change.
func (n *Node) save() error {
	roots, err := hierarchies()
	if err != nil {
		return err
	}
	// Again: what is written down here decides what is removed in the end.
	if err := checkHierarchies(roots); err != nil {
		return err
	}
	s := saved{
		Run:         n.layout.run,
		Pods:        n.network.pods,
		Absent:      absentPlaces(outsidePlaces()),
		Hierarchies: roots,
	}
	if s.Sysctls, err = readSettings("/proc/sys", changedSysctls()); err != nil {
		return err
	}
	if s.Delegations, err = readDelegations(roots); err != nil {
		return err
	}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write down how the machine is: %w", err)
	}
	return writeSynced(n.layout.path(savedName), append(text, '\n'))
}

// writeSynced writes a file that is whole or absent, also after a crash of the machine.
func writeSynced(path string, data []byte) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = file.Write(data)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// readSaved returns what a node wrote down, nil when there is nothing.
func readSaved(l layout) (*saved, error) {
	text, err := os.ReadFile(l.path(savedName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing was changed: nothing to put back
	}
	if err != nil {
		return nil, fmt.Errorf("read how the machine was: %w", err)
	}
	s := &saved{}
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("read how the machine was: %s: %w", l.path(savedName), err)
	}
	return s, nil
}
