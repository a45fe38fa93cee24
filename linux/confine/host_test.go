package confine

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/test/wait"
)

// machine skips the test unless this machine's control groups can be used.
func machine(t *testing.T) *cgroup.FS {
	t.Helper()
	fs := cgrouptest.OpenHost(t)
	if _, err := cgrouptree.FindParents(fs, cgroup.CPU, cgroup.CPUAcct, cgroup.CPUSet); err != nil {
		t.Skipf("groups cannot be created on this machine: %v", err)
	}
	return fs
}

// TestHost runs commands on this machine's kernel, of either version.
func TestHost(t *testing.T) {
	fs := machine(t)
	for name, test := range map[string]func(*testing.T){
		"limit": testLimit, "cpus": testCPUs, "where": testWhere, "status": testStatus, "terminated": testTerminated, "left": testLeft,
		"together": testTogether, "within": testWithin, "killed": testKilled, "killed-both": func(t *testing.T) { testKilledBoth(t, fs) },
		"signals": testSignals, "refused": testRefused, "descriptors": testDescriptors,
		"idle": testIdle, "not-root": func(t *testing.T) { testNotRoot(t, fs) }, "alone": func(t *testing.T) { testAlone(t, fs) },
		"locked-by-others": func(t *testing.T) { testLockedByOthers(t, fs) },
	} {
		t.Run(name, func(t *testing.T) {
			test(t)
			wait.Until(t, "no group is left", func() error {
				if left := abandoned(t, fs); len(left) > 0 {
					return fmt.Errorf("left behind: %v", left)
				}
				return nil
			})
		})
	}
}

// abandoned lists the groups that are not locked. Other tests may run commands at the same time.
func abandoned(t *testing.T, fs *cgroup.FS) (left []string) {
	t.Helper()
	parents, err := cgrouptree.FindParents(fs, cgroup.CPU)
	if err != nil {
		t.Fatal(err)
	}
	above, err := lockPlace(t.Context(), fs.Within(parents.Groups).Dir(cgroup.CPU, "/"))
	if err != nil {
		t.Fatal(err)
	}
	defer above.release()
	for _, dir := range groups(t) {
		if f, err := tryLock(dir); err == nil {
			f.Close()
			left = append(left, dir)
		}
	}
	return left
}

// groups lists the groups of runs in the cpu hierarchy.
func groups(t *testing.T) []string {
	t.Helper()
	fs, err := cgroup.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	err = filepath.WalkDir(fs.Dir(cgroup.CPU, "/"), func(name string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() && (IsRun(name) || strings.HasPrefix("/"+d.Name(), selfPrefix)) {
			all = append(all, name)
		}
		return nil // groups of others are created and removed meanwhile
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// run runs a command in this process and returns its output.
func run(t *testing.T, o order) (*Result, string) {
	t.Helper()
	var out bytes.Buffer
	s := o.spec()
	s.Stdin, s.Stdout, s.Stderr = nil, &out, &out
	s.Notify = func(message string) { t.Log("notice:", message) }
	r, err := Run(t.Context(), s)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return r, out.String()
}

// starting returns a run in another process.
func starting(t *testing.T, o order) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, doWord, "run", string(text))
	cmd.Stderr = logger{t}
	cmd.WaitDelay = time.Minute
	return cmd
}

func begin(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
}

// logger logs the output of a process.
type logger struct{ t *testing.T }

func (l logger) Write(b []byte) (int, error) {
	l.t.Logf("%s", bytes.TrimSpace(b))
	return len(b), nil
}

// running starts a run and returns when its command reports that it is ready.
func running(t *testing.T, o order) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := starting(t, o)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	begin(t, cmd)
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd, lines
}

// testTogether checks that runs that start at the same time have groups and statistics of their
// own, and see each other's CPUs.
func testTogether(t *testing.T) {
	var cmds []*exec.Cmd
	for i := range 6 {
		cmd := starting(t, order{Do: []string{"exit", fmt.Sprint(i)}, Quota: 50 * time.Millisecond, CPUs: fmt.Sprint(usable(t).First())})
		begin(t, cmd)
		cmds = append(cmds, cmd)
	}
	for i, cmd := range cmds {
		_ = cmd.Wait()
		if status := cmd.ProcessState.ExitCode(); status != i {
			t.Errorf("run %d has status %d", i, status)
		}
	}
	first := cpuset.Of(usable(t).First())
	other, _ := running(t, order{Do: []string{"count"}, CPUs: first.String()})
	s := order{Do: []string{"exit", "0"}}.spec()
	s.CPUs = func(r Room) (cpuset.Set, error) {
		if !first.IsSubsetOf(r.Taken) { // other tests' runs may have others
			t.Errorf("taken are %s, want %s among them", r.Taken, first)
		}
		return r.Parent, nil
	}
	if _, err := Run(t.Context(), s); err != nil {
		t.Error(err)
	}
	terminate(t, other)
}

// testDescriptors checks that the command inherits the run's descriptors.
func testDescriptors(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	cmd := starting(t, order{Do: []string{"fds"}})
	cmd.ExtraFiles = []*os.File{write}
	begin(t, cmd)
	write.Close()
	text, err := io.ReadAll(read)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if string(text) != "still here" {
		t.Errorf("%q, %v", text, err)
	}
}
