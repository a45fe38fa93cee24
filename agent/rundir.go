package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/linux/owned"
)

// ErrRunning reports that another agent runs on this machine.
var ErrRunning = errors.New("another pinfold-agent is running on this machine")

// lock ensures that only one agent runs on this machine. The kernel releases the lock when the
// process ends, even if it is killed. The lock file remains and contains the id of its last holder.
// Neither the file nor its directory is open to other users, because everybody who can open the
// file can lock it.
func lock(dir string) (release func(), err error) {
	err = owned.Make(dir, 0o700)
	if err == nil {
		err = owned.Protect(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make the run directory: %w; --run-dir names another one", err)
	}
	path := filepath.Join(dir, "agent.lock")
	file, err := owned.Lock(path)
	if errors.Is(err, owned.ErrHeld) {
		return nil, fmt.Errorf("%w%s: stop that one first, two would undo each other's writes; "+
			"if two pools or releases select this node, change its labels or a nodeSelector (lock %s; lslocks shows the holder)",
			ErrRunning, holder(path), path)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the machine: %w", err)
	}
	if err = file.Truncate(0); err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("write %s: %w", path, err)
	}
	return func() { _ = file.Close() }, nil
}

// holder returns " (process N)" for the process named in the lock file, or "".
func holder(path string) string {
	text, err := os.ReadFile(path)
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

// kubeletFile contains the kubelet's last known configuration, for an agent that starts while the
// kubelet cannot be reached.
func kubeletFile(runDir string) string { return filepath.Join(runDir, "kubelet.json") }

func saveKubelet(runDir string, k control.Kubelet) error {
	text, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return atomicfile.Write(kubeletFile(runDir), text, atomicfile.Options{Perm: 0o644, Suffix: ".new"})
}

// untouchedFile exists while no setting is in force that an agent has written. Earlier versions of
// the agent write none; they have saved a kubelet's configuration.
func untouchedFile(runDir string) string { return filepath.Join(runDir, "untouched") }

// savedTouched reports whether settings of an earlier agent may be in force.
func savedTouched(runDir string) bool {
	_, err := os.Stat(untouchedFile(runDir))
	return err != nil && savedKubelet(runDir) != nil
}

func saveTouched(runDir string, touched bool) error {
	if !touched {
		return os.WriteFile(untouchedFile(runDir), nil, 0o644)
	}
	if err := os.Remove(untouchedFile(runDir)); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// savedKubelet returns the saved configuration, or nil if there is no valid one.
func savedKubelet(runDir string) *control.Kubelet {
	text, err := os.ReadFile(kubeletFile(runDir))
	var k control.Kubelet
	if err != nil || json.Unmarshal(text, &k) != nil || k.CPUManagerPolicy == "" {
		return nil
	}
	return &k
}
