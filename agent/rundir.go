package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/claims"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/owned"
)

// ErrRunning reports that another agent runs on this machine.
var ErrRunning = errors.New("another pinfold-agent is running on this machine")

// lock ensures that only one agent runs on this machine. The kernel releases the lock when the
// process ends, even if it is killed. The lock file remains and contains the id of its last holder,
// which lock returns. Neither the file nor its directory is open to other users, because everybody
// who can open the file can lock it.
func lock(dir string) (last string, release func(), err error) {
	err = owned.Make(dir, 0o700)
	if err == nil {
		err = owned.Protect(dir)
	}
	if err != nil {
		return "", nil, fmt.Errorf("make the run directory: %w; --run-dir names another one", err)
	}
	path := filepath.Join(dir, "agent.lock")
	file, err := owned.Lock(path)
	if errors.Is(err, owned.ErrHeld) {
		return "", nil, fmt.Errorf("%w%s: stop that one first, two would undo each other's writes; "+
			"if two pools or releases select this node, change its labels or a nodeSelector (lock %s; lslocks shows the holder)",
			ErrRunning, holder(path), path)
	}
	if err != nil {
		return "", nil, fmt.Errorf("lock the machine: %w", err)
	}
	last = lastHolder(path)
	if err = file.Truncate(0); err == nil {
		_, err = file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = file.Close()
		return "", nil, fmt.Errorf("write %s: %w", path, err)
	}
	return last, func() { _ = file.Close() }, nil
}

// lastHolder returns the id of the process named in a lock file, or "".
func lastHolder(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// holder returns " (process N)" for the process named in the lock file, or "".
func holder(path string) string {
	if pid := lastHolder(path); pid != "" {
		return " (process " + pid + ")"
	}
	return ""
}

// kubeletFile contains the kubelet's last known configuration, for an agent that starts while the
// kubelet cannot be reached.
func kubeletFile(runDir string) string { return filepath.Join(runDir, "kubelet.json") }

func saveKubelet(runDir string, k control.Kubelet) error {
	return saveJSON(kubeletFile(runDir), 0o644, k)
}

// saveJSON replaces a file by one with the value in JSON.
func saveJSON(path string, perm fs.FileMode, value any) error {
	text, err := json.Marshal(value)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, text, atomicfile.Options{Perm: perm, Suffix: ".new"})
}

// givenFile contains the CPUs that the agent has given to pods.
func givenFile(runDir string) string { return filepath.Join(runDir, "allocations.json") }

func saveGiven(runDir string, given map[types.UID]api.Allocation) error {
	return saveJSON(givenFile(runDir), 0o644, given)
}

// savedGiven returns what an agent has given since the machine was started. With an error it
// returns what can be read. If nothing is saved, it returns what the container runtime was told of
// resource claims.
func savedGiven(o *Options) (map[types.UID]api.Allocation, error) {
	text, err := os.ReadFile(givenFile(o.RunDir))
	if errors.Is(err, os.ErrNotExist) {
		return claims.Saved(o.CDIDir)
	}
	saved := map[types.UID]json.RawMessage{}
	if err == nil {
		err = json.Unmarshal(text, &saved)
	}
	given := make(map[types.UID]api.Allocation, len(saved))
	for uid, text := range saved {
		a, errPod := api.DecodeAllocation(string(text))
		if errPod != nil {
			err = errors.Join(err, fmt.Errorf("pod %s: %w", uid, errPod))
			continue
		}
		given[uid] = a
	}
	return given, err
}

// force is what is known of the settings that agents have written since the machine was started.
type force struct {
	// now is set if settings may be in force.
	now bool
	// ever is set if some may have been. The runtime remembers CPUs that it was told then, and
	// sets them again when it updates a container.
	ever bool
}

// untouchedFile exists while no setting of an agent is in force. It names the process of the agent
// that wrote it, and whether there ever were settings.
func untouchedFile(runDir string) string { return filepath.Join(runDir, "untouched") }

const everInForce = "ever"

// savedForce returns what the agent of the process last has saved. saved is false if it is only
// inferred. Agents of earlier versions save nothing but the kubelet's configuration; if one has run
// since, the file names another process.
func savedForce(runDir, last string) (f force, saved bool) {
	text, err := os.ReadFile(untouchedFile(runDir))
	if err != nil {
		known := savedKubelet(runDir) != nil
		return force{known, known}, false
	}
	fields := strings.Fields(string(text))
	if len(fields) == 0 || fields[0] != last {
		return force{true, true}, false
	}
	return force{ever: len(fields) > 1 && fields[1] == everInForce}, true
}

// remove removes a file, if it exists.
func remove(path string) error {
	if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func saveForce(runDir string, f force) error {
	if f.now {
		return remove(untouchedFile(runDir))
	}
	text := strconv.Itoa(os.Getpid())
	if f.ever {
		text += " " + everInForce
	}
	return atomicfile.Write(untouchedFile(runDir), []byte(text+"\n"), atomicfile.Options{Perm: 0o644, Suffix: ".new"})
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
