package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"pinfold.dev/pinfold/lab/judge"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
	"pinfold.dev/pinfold/test/wait"
)

// TestAdvice records each program once, too briefly for advice. The first time it is interrupted,
// and the second time killed while it records. The third time it completes what is missing.
func TestAdvice(t *testing.T) {
	a := newAdviceTest(t, "--record", "2s", "--only", "^(go/limit/crowd|python/free/idle|jvm/free/one|httpd/limit/idle|build/limit/one)$")
	for _, end := range []struct {
		signal os.Signal
		when   func(judge.Results) bool
	}{
		{syscall.SIGINT, func(r judge.Results) bool { return len(r.Programs) == 1 }},
		{syscall.SIGKILL, func(r judge.Results) bool {
			journals := must.Get(filepath.Glob(filepath.Join(a.dir, "*.journal")))(t)
			return len(r.Recordings) == 1 && len(journals) > 0 // it records the second program
		}},
	} {
		command, messages := a.start()
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		wait.True(t, "something is measured", func() bool { return end.when(a.open()) || len(ended) > 0 }, wait.CPUTime(command.Process.Pid))
		if len(ended) > 0 {
			t.Fatalf("it ended with %v:\n%s", <-ended, messages)
		}
		must.Do(t, command.Process.Signal(end.signal))
		if err := <-ended; err == nil {
			t.Errorf("no error after %v:\n%s", end.signal, messages)
		}
		a.noGroups(command.Process.Pid)
	}
	r := a.complete()
	missing := 0
	for _, p := range r.Programs {
		if p.Missing != "" {
			missing++
		}
	}
	if len(r.Sessions) != 3 || len(r.Programs) != 5 || len(r.Recordings) != 5-missing || len(r.Runs) > 0 {
		t.Errorf("%d sessions, %d programs of which %d are missing, %d recordings, %d runs", len(r.Sessions), len(r.Programs), missing, len(r.Recordings), len(r.Runs))
	}
}

// TestAdviceTried tries advice from one recording, which is long enough if other load does not
// disturb it.
func TestAdviceTried(t *testing.T) {
	a := newAdviceTest(t, "--only", "^go/free/idle$")
	r := a.complete()
	if len(r.Recordings) != 1 || r.Recordings[0].Advice.Reason == "" || r.Recordings[0].Advice.Recorded.Seconds < 40 {
		t.Fatalf("recordings: %+v", r.Recordings)
	}
	if one := r.Recordings[0]; !one.Advice.Enough {
		t.Skipf("machine: the recording gives no advice, disturbed by %q: run this with less other load: %s", one.Disturbed, one.Advice.Reason)
	}
	if len(r.Runs) != 2 || r.Runs[0].On != judge.Idle || r.Runs[1].On != judge.Crowd {
		t.Errorf("runs: %+v", r.Runs)
	}
	if r = a.complete(); len(r.Sessions) != 2 || len(r.Recordings) != 1 || len(r.Runs) != 2 {
		t.Errorf("after the same command: %d sessions, %d recordings, %d runs", len(r.Sessions), len(r.Recordings), len(r.Runs))
	}
}

// adviceTest runs "pinfold-lab advice" with the same flags again and again.
type adviceTest struct {
	*testing.T
	groups *cgroup.FS
	dir    string
	args   []string
}

func newAdviceTest(t *testing.T, flags ...string) adviceTest {
	t.Helper()
	need.This(t, "real programs and two minutes")
	race.SkipLong(t)
	groups := cgrouptest.OpenHost(t)
	lab, pinfold := must.Get(need.Program("pinfold-lab"))(t), must.Get(need.Program("pinfold"))(t)
	dir := t.TempDir()
	must.Do(t, os.Chmod(filepath.Dir(dir), 0o755)) // the workers of Apache are another user
	return adviceTest{t, groups, dir, append([]string{lab, "advice", "--quick", "--output", dir, "--pinfold", pinfold}, flags...)}
}

func (a adviceTest) start() (*exec.Cmd, *bytes.Buffer) {
	a.Helper()
	command, messages := exec.CommandContext(a.Context(), a.args[0], a.args[1:]...), new(bytes.Buffer)
	command.Stdout, command.Stderr = messages, messages
	command.Env = append(os.Environ(), "TMPDIR="+a.dir) // other tests hold the lock on measurements
	must.Do(a, command.Start())
	return command, messages
}

func (a adviceTest) open() judge.Results {
	a.Helper()
	return must.Get(judge.Open(a.dir))(a)
}

// noGroups checks that no group of a process is left.
func (a adviceTest) noGroups(pid int) {
	a.Helper()
	wait.Until(a, "groups are removed", func() error {
		runs, err := confine.Runs(a.groups)
		if slices.ContainsFunc(runs, func(run string) bool { return strings.Contains(run, fmt.Sprintf("advice-%d-", pid)) }) {
			return fmt.Errorf("groups are left: %v", runs)
		}
		return err
	})
}

// complete lets it end, and checks what was measured.
func (a adviceTest) complete() judge.Results {
	a.Helper()
	command, messages := a.start()
	if err := command.Wait(); err != nil {
		a.Fatalf("%v:\n%s", err, messages)
	}
	a.Log(messages)
	a.noGroups(command.Process.Pid)
	if table := string(must.Get(os.ReadFile(filepath.Join(a.dir, judge.Table)))(a)); !strings.Contains(messages.String(), table) {
		a.Errorf("another table is in the file:\n%s", table)
	}
	r := a.open()
	for _, one := range r.Recordings {
		a.check(one.String(), one.Measured, one.Beside)
	}
	for _, run := range r.Runs {
		a.check(fmt.Sprint(run.Row, " on ", run.On), run.Measured, run.On)
	}
	return r
}

// check checks a trial. How often programs were throttled depends on the machine.
func (a adviceTest) check(name string, m judge.Measured, beside judge.Beside) {
	a.Helper()
	if m.Used <= 0 || m.Time <= 0 || m.Throttled > m.Timer || (m.Neighbours > 0) != (beside != judge.Idle) {
		a.Errorf("%s: %+v", name, m)
	}
}
