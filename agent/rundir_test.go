package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/kubepods"
	"pinfold.dev/pinfold/linux/owned"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// Other users cannot prevent the agent from starting, neither by locking its file nor by making the
// directory first.
func TestOtherUsersCannotLock(t *testing.T) {
	need.This(t, "root and flock(1)")
	if os.Geteuid() != 0 {
		t.Skip("needs root: acts as two users")
	}
	const nobody = 65534
	dir := filepath.Join(t.TempDir(), "pinfold")
	path := filepath.Join(dir, "agent.lock")
	for _, earlier := range []bool{false, true} {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if earlier { // made by hand
			if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(path, []byte("1\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		release := must.Get(lock(dir))(t)
		if _, err := lock(dir); !errors.Is(err, ErrRunning) {
			t.Errorf("a second agent: %v", err)
		}
		release()
		flock := exec.Command("flock", "-n", path, "true")
		flock.Dir = "/"
		flock.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		if text, err := flock.CombinedOutput(); err == nil || !strings.Contains(string(text), "denied") {
			t.Errorf("another user can lock %s: %v, %s", path, err, text)
		}
	}
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if _, err := lock(dir); !errors.Is(err, owned.ErrForeign) || !strings.Contains(err.Error(), "--run-dir") {
		t.Errorf("another user's directory: %v", err)
	}
}

func TestSaveKubelet(t *testing.T) {
	dir := t.TempDir()
	if got := savedKubelet(dir); got != nil {
		t.Errorf("before saving: %+v", got)
	}
	k := control.Kubelet{CPUManagerPolicy: "none", ReservedCPUs: cpuset.Of(0, 1), CgroupRoot: "/"}
	k.Quota.Period = 50 * time.Millisecond
	if err := saveKubelet(dir, k); err != nil {
		t.Fatal(err)
	}
	if got := savedKubelet(dir); got == nil || *got != k {
		t.Errorf("saved %+v, got %+v", k, got)
	}
	if name := kubeletFile(Options{}.withDefaults().RunDir); name != "/"+kubepods.AgentFile {
		t.Errorf("kubepods.Locate reads %s, not %s", kubepods.AgentFile, name)
	}
	if text := must.Get(os.ReadFile(kubeletFile(dir)))(t); !strings.Contains(string(text), `"CgroupRoot":"/"`) {
		t.Errorf("kubepods.Locate finds no root in %s", text)
	}
	if err := os.WriteFile(kubeletFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := savedKubelet(dir); got != nil {
		t.Errorf("a broken file gives %+v", got)
	}
}

// TestForce: what an agent saves about settings in force holds for the next agent.
func TestForce(t *testing.T) {
	dir := t.TempDir()
	check := func(what string, want force) {
		t.Helper()
		if got, _ := savedForce(dir); got != want {
			t.Errorf("%s: %+v, want %+v", what, got, want)
		}
	}
	check("no agent has run", force{})
	must.Do(t, saveForce(dir, force{}))
	check("an agent without settings", force{})
	must.Do(t, saveForce(dir, force{now: true, ever: true}))
	check("killed before it saved the kubelet's configuration", force{})
	must.Do(t, saveKubelet(dir, control.Kubelet{CPUManagerPolicy: "none"}))
	check("killed with settings", force{now: true, ever: true})
	must.Do(t, saveForce(dir, force{ever: true}))
	check("given back", force{ever: true})
	must.Do(t, os.WriteFile(untouchedFile(dir), nil, 0o644))
	check("damaged", force{now: true, ever: true})
}

// TestSavedAllocations: what an agent has allocated is read again, and of a damaged file the rest.
func TestSavedAllocations(t *testing.T) {
	dir := t.TempDir()
	if saved, err := savedAllocations(&Options{RunDir: dir}); len(saved) > 0 || err != nil {
		t.Errorf("nothing saved: %v, %v", saved, err)
	}
	one := api.Allocation{Version: 1, Node: "n", Policy: placement.Static, Time: time.Unix(1_800_000_000, 7).UTC(),
		Containers: []api.ContainerAllocation{{Name: "app", CPUs: cpuset.Of(1, 2), NUMANodes: []topology.NUMAID{0}}}}
	must.Do(t, saveAllocations(dir, api.Allocations{"a": one, "b": {}}))
	saved, err := savedAllocations(&Options{RunDir: dir})
	if len(saved) != 1 || !reflect.DeepEqual(saved["a"], one) || err == nil || !strings.Contains(err.Error(), "pod b") {
		t.Errorf("%+v, %v", saved, err)
	}
	must.Do(t, os.Truncate(allocationsFile(dir), 30))
	if saved, err := savedAllocations(&Options{RunDir: dir}); len(saved) > 0 || err == nil {
		t.Errorf("cut off: %+v, %v", saved, err)
	}
}
