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
// process ends, even if it is killed. The lock file remains and contains the id of its last holder.
// Neither the file nor its directory is open to other users, because everybody who can open the file
// can lock it.
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
	text, _ := os.ReadFile(path)
	if pid := strings.TrimSpace(string(text)); pid != "" {
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

// allocationsFile contains what the agent has allocated to pods.
func allocationsFile(runDir string) string { return filepath.Join(runDir, "allocations.json") }

func saveAllocations(runDir string, all api.Allocations) error {
	return saveJSON(allocationsFile(runDir), 0o644, all)
}

// savedAllocations returns what agents have allocated since the machine was started, also by what the
// container runtime was told of resource claims: what is later counts. With an error it returns what
// can be read.
func savedAllocations(o *Options) (api.Allocations, error) {
	all, err := claims.Saved(o.CDIDir)
	text, errFile := os.ReadFile(allocationsFile(o.RunDir))
	if errors.Is(errFile, os.ErrNotExist) {
		return all, err
	}
	saved := map[types.UID]json.RawMessage{}
	if errFile == nil {
		errFile = json.Unmarshal(text, &saved)
	}
	if errFile != nil {
		err = errors.Join(err, fmt.Errorf("%s: %w", allocationsFile(o.RunDir), errFile))
	}
	for uid, text := range saved {
		a, errPod := api.DecodeAllocation(string(text))
		if errPod != nil {
			err = errors.Join(err, fmt.Errorf("%s: pod %s: %w", allocationsFile(o.RunDir), uid, errPod))
		} else if !all[uid].Time.After(a.Time) {
			all[uid] = a
		}
	}
	return all, err
}

// force is what is known of the settings that agents have written since the machine was started.
type force struct {
	// now is set if settings may be in force.
	now bool
	// ever is set if some may have been. The runtime remembers CPUs that it was told then, and
	// sets them again when it updates a container.
	ever bool
}

// untouchedFile exists while no setting of an agent is in force. It says whether one ever was.
func untouchedFile(runDir string) string { return filepath.Join(runDir, "untouched") }

const everInForce, neverInForce = "ever", "never"

// savedForce returns what the last agent has saved. saved is false if it is only inferred: an agent
// that does not know the kubelet's configuration writes nothing.
func savedForce(runDir string) (f force, saved bool) {
	text, err := os.ReadFile(untouchedFile(runDir))
	switch strings.TrimSpace(string(text)) {
	case everInForce:
		return force{ever: true}, true
	case neverInForce:
		return force{}, true
	}
	may := err == nil || savedKubelet(runDir) != nil
	return force{may, may}, false
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
	text := neverInForce
	if f.ever {
		text = everInForce
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
