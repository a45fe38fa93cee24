//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/local/workload"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/race"
)

// TestMain lets scripts run this test binary as the commands pinfold, terminal and burn.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pinfold": main, "terminal": runOnTerminal, "burn": burn})
}

// burn is the command "burn CPU REST": it uses an amount of CPU time in one thread and rests for a time,
// again and again.
func burn() {
	amount, err := time.ParseDuration(os.Args[1])
	rest, err2 := time.ParseDuration(os.Args[2])
	for err == nil && err2 == nil {
		workload.Burn(amount)
		time.Sleep(rest)
	}
}

// TestScripts runs the command as a user does; see testdata/script. Besides the commands of
// testscript and the commands terminal and burn there are
//
//	machine intel104|amd256|NAME=N,... FILE    writes a machine file
//	exits STATUS COMMAND...                    runs it and checks its exit status
//	repeat N FILE TO                           writes FILE to TO, N times
//
// and the conditions [cgroups], whether control groups can be made, [tracing], whether the scheduler
// can be traced, and [race], whether the race detector is on. With -short nothing is asked of this machine. The variable RECORDINGS is the folder testdata/recordings.
//
// PINFOLD_UPDATE=1 writes outputs that differ into the scripts.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Setup:               withRecordings,
		Cmds:                scriptWords(),
		Condition:           condition,
		RequireExplicitExec: true,
		UpdateScripts:       golden.Updating(),
	})
}

func withRecordings(env *testscript.Env) error {
	dir, err := filepath.Abs("testdata/recordings")
	env.Setenv("RECORDINGS", dir)
	return err
}

func scriptWords() map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"machine": writeMachine,
		"exits":   checkStatus,
		"repeat": func(ts *testscript.TestScript, _ bool, args []string) {
			n, err := strconv.Atoi(args[0])
			ts.Check(err)
			text := strings.Repeat(ts.ReadFile(args[1]), n)
			ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(text), 0o600))
		},
	}
}

func condition(name string) (bool, error) {
	switch name {
	case "cgroups":
		return !testing.Short() && canMakeGroups() == nil, nil
	case "tracing":
		err := frame.Run(context.Background(), newRoot("pinfold"), []string{"why", "/", "--duration", "10ms"}, nil, io.Discard, io.Discard)
		return !testing.Short() && (err == nil || !strings.Contains(err.Error(), "cannot trace the scheduler")), nil
	case "unshare": // CPU 1, and a mount namespace
		return !testing.Short() && exec.Command("unshare", "--mount", "taskset", "--cpu-list", "1", "true").Run() == nil, nil
	case "race":
		return race.Enabled, nil
	}
	return false, fmt.Errorf("unknown condition %q", name)
}

// canMakeGroups returns an error if this test cannot make control groups.
func canMakeGroups() error {
	fs, err := cgroup.Open("/")
	if err == nil {
		_, err = cgrouptree.FindParents(fs, cgroup.CPU, cgroup.CPUAcct, cgroup.CPUSet)
	}
	return err
}

func writeMachine(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: machine SHAPE FILE")
	}
	var s topology.Shape
	switch args[0] {
	case "intel104":
		s = topology.Intel104()
	case "amd256":
		s = topology.AMD256()
	default:
		s = shape(ts, args[0])
	}
	m, err := s.Build()
	ts.Check(err)
	text, err := json.Marshal(m)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), append(text, '\n'), 0o600))
}

func shape(ts *testscript.TestScript, text string) topology.Shape {
	var s topology.Shape
	for item := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(item, "=")
		n, err := strconv.Atoi(value)
		ts.Check(err)
		switch name {
		case "packages":
			s.Packages = n
		case "numa":
			s.NUMAPerPackage = n
		case "llcs":
			s.LLCsPerNUMA = n
		case "cores":
			s.CoresPerLLC = n
		case "threads":
			s.ThreadsPerCore = n
		default:
			ts.Fatalf("unknown count %q", name)
		}
	}
	return s
}

func checkStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	got := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		got, err = exit.ExitCode(), nil
	}
	ts.Check(err)
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}
