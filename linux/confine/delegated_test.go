package confine

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
)

// nobody is a user without privileges.
const nobody = 65534

// ownGroup creates a group that a user may use, and those above it. It returns the files to which
// the ids of processes are written to move them there.
func ownGroup(t *testing.T, fs *cgroup.FS, name string, uid int) (procs []string) {
	t.Helper()
	of := []cgroup.Controller{cgroup.CPU, cgroup.CPUAcct, cgroup.CPUSet}
	parents, err := cgrouptree.FindParents(fs, of...)
	if err != nil {
		t.Fatal(err)
	}
	within := fs.Within(parents.Groups)
	at := ""
	for part := range strings.SplitSeq(name[1:], "/") {
		at += "/" + part
		cgrouptest.Make(t, within, at, of...)
	}
	for _, c := range of {
		if within.Hierarchy(c).Mount == "" {
			continue
		}
		dir := within.Dir(c, name)
		for _, f := range []string{"", "cgroup.procs", "cgroup.subtree_control"} {
			if err := os.Chown(filepath.Join(dir, f), uid, uid); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		procs = append(procs, filepath.Join(dir, "cgroup.procs"))
	}
	return procs
}

// inGroup starts a run in a group and returns its output.
func inGroup(t *testing.T, procs []string, uid int, o order) string {
	t.Helper()
	cmd := starting(t, o)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	cmd.Path = forAll(t)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	beginIn(t, cmd, procs)
	_ = cmd.Wait()
	return out.String()
}

// beginIn starts a run that is moved to a group before it begins.
func beginIn(t *testing.T, cmd *exec.Cmd, procs []string) {
	t.Helper()
	cmd.Args[2] = "run-when-told"
	tell, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin(t, cmd)
	for _, name := range procs {
		if err := os.WriteFile(name, []byte(strconv.Itoa(cmd.Process.Pid)), 0); err != nil {
			t.Fatal(err)
		}
	}
	tell.Close()
}

// forAll returns a copy of this test that every user may execute.
func forAll(t *testing.T) string {
	t.Helper()
	binary, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(dir, "command")
	if err := os.WriteFile(name, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// testNotRoot checks that another user gets an error with advice, and can run commands in a group
// that root has delegated.
func testNotRoot(t *testing.T, fs *cgroup.FS) {
	if out := inGroup(t, nil, nobody, order{Do: []string{"where"}}); !strings.Contains(out, cgrouptree.ErrNoParent.Error()) || !strings.Contains(out, "run as root, or") {
		t.Errorf("without a group: %s", out)
	}
	procs := ownGroup(t, fs, "/pinfold-test-given", nobody)
	if out := inGroup(t, procs, nobody, order{Do: []string{"where"}, Quota: 1e7, CPUs: "0"}); !strings.Contains(out, "/pinfold-test-given"+runPrefix) {
		t.Errorf("in a group of its own: %s", out)
	}
}

// testAlone checks that a run that is alone in its group leaves it for the duration and restores
// it.
func testAlone(t *testing.T, fs *cgroup.FS) {
	procs := ownGroup(t, fs, "/pinfold-test-alone", 0)
	for range 2 {
		if out := inGroup(t, procs, 0, order{Do: []string{"where"}, CPUs: "0"}); !strings.Contains(out, "/pinfold-test-alone"+runPrefix) {
			t.Errorf("%s", out)
		}
	}
}
