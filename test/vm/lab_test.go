package vm

import (
	"cmp"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/lab/measure"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/vm/guest"
)

// Environment variables of TestLab: which experiment it runs in full, and where it puts the result.
const (
	experimentEnv = "PINFOLD_TEST_EXPERIMENT"
	resultEnv     = "PINFOLD_TEST_RESULT"
)

// TestLab runs an experiment on cgroup version 2: briefly, or in full if it is asked for.
func TestLab(t *testing.T) {
	kernel := kernelIn(t, OldKernelEnv, "a kernel that has flock(2) to run this test; the package comment says how")
	const dir = "/lab-results"
	name, full := cmp.Or(os.Getenv(experimentEnv), "four-requests"), os.Getenv(experimentEnv) != ""
	args, timeout := []string{"run", name, "-o", dir}, time.Hour
	if !full {
		args, timeout = append(args, "--quick"), programTimeout
	}
	l := build(t, "./test/vm/inside")
	l.kernel = kernel
	l.compile(t, []string{"build", "-o", l.path("pinfold-lab"), "./cmd/pinfold-lab"})
	show := compiled("show", "inside.test", "^TestShow$")
	show.Env = []string{guest.ShowEnv + "=" + dir + "/*/*"}
	ran := l.boot(t, Shape{Packages: 1, Dies: 1, Cores: 2, Threads: 1}, guest.Program{Name: "lab", Path: "/bin/pinfold-lab", Args: args, Timeout: timeout}, show)
	t.Logf("in the guest: %s", ran["lab"].Output)
	if ran["lab"].Failed != "" {
		t.Fatal(ran["lab"].Failed)
	}
	result := cmp.Or(os.Getenv(resultEnv), filepath.Join(t.TempDir(), name))
	must.Do(t, os.MkdirAll(result, 0o755))
	for line := range strings.Lines(ran["show"].Output) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == guest.Shown {
			data := must.Get(base64.StdEncoding.DecodeString(fields[2]))(t)
			must.Do(t, os.WriteFile(filepath.Join(result, filepath.Base(fields[1])), data, 0o600))
		}
	}
	got, _, err := measure.Open(result)
	if err != nil || !got.Complete || got.Environment.Cgroup != 2 || got.Environment.CPUs != 2 {
		t.Fatalf("%v: complete: %v (%s); %+v", err, got.Complete, got.Ended, got.Environment)
	}
	throttled := map[string]float64{}
	for _, w := range got.Windows {
		throttled[w.Condition] += w.Figures[experiment.Throttled] / float64(len(got.Windows))
	}
	if !full && !(throttled["quota"] > throttled["quota + burst"]) {
		t.Errorf("throttled: %v", throttled)
	}
}
