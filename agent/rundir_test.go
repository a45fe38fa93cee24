package agent

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/owned"
)

// Other users cannot prevent the agent from starting, neither by locking its file nor by making the
// directory first.
func TestOtherUsersCannotLock(t *testing.T) {
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
		if earlier { // as an earlier version left it
			if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(path, []byte("1\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		release, err := lock(dir)
		if err != nil {
			t.Fatal(err)
		}
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
	if err := os.WriteFile(kubeletFile(dir), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := savedKubelet(dir); got != nil {
		t.Errorf("a broken file gives %+v", got)
	}
}
