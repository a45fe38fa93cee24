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
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/wait"
)

// TestAdvice tries advice with one short recording of each program. The first time it is
// interrupted, and the second time killed. The third time it completes what is missing.
func TestAdvice(t *testing.T) {
	need.This(t, "real programs and two minutes")
	groups := cgrouptest.OpenHost(t)
	lab, pinfold := must.Get(need.Program("pinfold-lab"))(t), must.Get(need.Program("pinfold"))(t)
	dir := t.TempDir()
	start := func() (*exec.Cmd, *bytes.Buffer) {
		command := exec.CommandContext(t.Context(), lab, "advice", "--quick", "--output", dir, "--pinfold", pinfold,
			"--only", "^(go/limit/crowd|python/free/idle|jvm/free/one|httpd/limit/idle|build/limit/one)$")
		messages := new(bytes.Buffer)
		command.Stdout, command.Stderr = messages, messages
		must.Do(t, command.Start())
		return command, messages
	}
	open := func() judge.Results { return must.Get(judge.Open(dir))(t) }
	noGroups := func(pid int) {
		wait.Until(t, "groups are removed", func() error {
			runs, err := confine.Runs(groups)
			if slices.ContainsFunc(runs, func(run string) bool { return strings.Contains(run, fmt.Sprintf("advice-%d-", pid)) }) {
				return fmt.Errorf("groups are left: %v", runs)
			}
			return err
		})
	}
	for _, end := range []struct {
		signal os.Signal
		when   func(judge.Results) bool
	}{
		{syscall.SIGINT, func(r judge.Results) bool { return len(r.Programs) == 1 }},
		{syscall.SIGKILL, func(r judge.Results) bool { return len(r.Recordings) == 1 }},
	} {
		command, messages := start()
		wait.True(t, "something is measured", func() bool { return end.when(open()) }, wait.CPUTime(command.Process.Pid))
		must.Do(t, command.Process.Signal(end.signal))
		if err := command.Wait(); err == nil {
			t.Errorf("no error after %v:\n%s", end.signal, messages)
		}
		noGroups(command.Process.Pid)
	}
	command, messages := start()
	if err := command.Wait(); err != nil {
		t.Fatalf("%v:\n%s", err, messages)
	}
	t.Log(messages)
	noGroups(command.Process.Pid)
	check(t, open())
	if table := string(must.Get(os.ReadFile(filepath.Join(dir, judge.Table)))(t)); !strings.Contains(messages.String(), table) {
		t.Errorf("another table is in the file:\n%s", table)
	}
}

// check checks that everything was measured once. How often programs were throttled depends on the
// machine.
func check(t *testing.T, r judge.Results) {
	t.Helper()
	missing, runs := 0, 0
	for _, p := range r.Programs {
		if p.Missing != "" {
			missing++
		}
	}
	for _, one := range r.Recordings {
		if one.Advice.Enough {
			runs += 2
		}
		checkMeasured(t, one.String(), one.Measured, one.Beside)
	}
	for _, run := range r.Runs {
		checkMeasured(t, fmt.Sprint(run.Row, " on ", run.On), run.Measured, run.On)
	}
	if len(r.Sessions) != 3 || len(r.Programs) != 5 || len(r.Recordings) != 5-missing || len(r.Runs) != runs {
		t.Errorf("%d sessions, %d programs of which %d are missing, %d recordings, %d runs; want %d runs",
			len(r.Sessions), len(r.Programs), missing, len(r.Recordings), len(r.Runs), runs)
	}
}

func checkMeasured(t *testing.T, name string, m judge.Measured, beside judge.Beside) {
	t.Helper()
	if m.Used <= 0 || m.Time <= 0 || m.Throttled > m.Timer || (m.Neighbours > 0) != (beside != judge.Idle) {
		t.Errorf("%s: %+v", name, m)
	}
}
