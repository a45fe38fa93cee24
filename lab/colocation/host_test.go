package colocation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinfold.dev/pinfold/lab/workload"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/confine"
)

// TestMain runs this program as a helper of confine and as the programs of the experiment.
func TestMain(m *testing.M) {
	if status, ok := confine.Helper(os.Args[1:]); ok {
		os.Exit(status)
	}
	if len(os.Args) > 2 && os.Args[1] == "workload" {
		os.Exit(runWorkload(os.Args[2]))
	}
	os.Exit(m.Run())
}

func runWorkload(name string) (status int) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if name == "batch" {
		fmt.Println("computing")
		workload.Batch(ctx, 2)
		return 0
	}
	_ = workload.Web(ctx, "127.0.0.1:0", 1, 0, os.Stdout) // ends with the test
	return 0
}

// small returns an experiment of a second or two.
func small() Config {
	return Config{
		Conditions: []Condition{
			{Name: Alone}, {Name: "least", Batch: true, Least: true}, {Name: "idle", Batch: true, Idle: true},
			{Name: "budget", Batch: true, Idle: true, Threshold: 0.6}, {Name: "half", Batch: true, Idle: true, CPUs: 0.5},
		},
		Online: 0.1, Hash: 100_000, Threads: 2, Window: 400 * time.Millisecond, Settle: 200 * time.Millisecond, Rounds: 1,
		Foreign: 1, Seed: 1,
		Workload: func(args ...string) []string { return append([]string{os.Args[0], "workload"}, args...) },
		Progress: func(string) {},
	}
}

// left returns the groups of experiments of this process.
func left(t *testing.T, groups *cgroup.FS) []string {
	t.Helper()
	runs, err := confine.Runs(groups)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(runs, func(run string) bool { return !strings.HasSuffix(run, fmt.Sprintf("-%d", os.Getpid())) })
}

// TestRun measures one window of each condition on cgroups of this machine.
func TestRun(t *testing.T) {
	groups := cgrouptest.OpenHost(t)
	config := small()
	result, err := Run(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Windows) != len(config.Conditions) {
		t.Fatalf("%d windows, want %d", len(result.Windows), len(config.Conditions))
	}
	for _, w := range result.Windows {
		t.Logf("%+v", w)
		if w.Requests == 0 || w.Failed > 0 || w.P50 <= 0 || w.P50 > w.P99 || w.P99 > w.P999 {
			t.Errorf("%s: wrong latencies: %+v", w.Condition, w)
		}
		if w.Online <= 0 || w.Generator <= 0 || w.Used() > 1.1 {
			t.Errorf("%s: wrong usage: %+v", w.Condition, w)
		}
		// With idle priority it has little beside other work on this machine, and alone it may need a
		// moment to stop.
		if w.Condition == Alone && w.Batch > 0.05 || w.Condition != Alone && w.Batch <= 0 {
			t.Errorf("%s: batch work used %.1f%% of the CPUs", w.Condition, 100*w.Batch)
		}
		// A budget leaves at least what is above its threshold, and the cpuset half of the CPUs. The
		// kernel hands out quotas in slices, and the first sample comes a period late.
		limits := map[string]float64{"budget": 0.6, "half": 0.5}
		if most, limited := limits[w.Condition]; limited && float64(w.Batch) > most+0.1 {
			t.Errorf("%s: batch work used %.1f%% of the CPUs, want at most %.0f%%", w.Condition, 100*w.Batch, 100*most)
		}
	}
	if groups := left(t, groups); len(groups) > 0 {
		t.Errorf("groups are left: %v", groups)
	}
}

// TestInterrupted ends an experiment in its second round.
func TestInterrupted(t *testing.T) {
	groups := cgrouptest.OpenHost(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("ended by the test")
	config := small()
	config.Rounds = 1000
	config.Progress = func(string) { cancel(ended) } // at the end of a round
	result, err := Run(ctx, config)
	if !errors.Is(err, ended) {
		t.Errorf("error %v, want %v", err, ended)
	}
	if n := len(result.Windows); n < len(config.Conditions) || n >= 2*len(config.Conditions) {
		t.Errorf("%d windows were kept, want those of the first round", n)
	}
	if groups := left(t, groups); len(groups) > 0 {
		t.Errorf("groups are left: %v", groups)
	}
}

// TestProgramEnds runs a program that ends at once.
func TestProgramEnds(t *testing.T) {
	groups := cgrouptest.OpenHost(t)
	config := small()
	config.Workload = func(...string) []string { return []string{"/bin/true"} }
	if _, err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), "online did not start") {
		t.Errorf("error %v, want that the service did not start", err)
	}
	if groups := left(t, groups); len(groups) > 0 {
		t.Errorf("groups are left: %v", groups)
	}
}

// TestServiceEnds kills the service in the first round.
func TestServiceEnds(t *testing.T) {
	groups := cgrouptest.OpenHost(t)
	config := small()
	config.Rounds = 1000
	config.Progress = func(string) {
		for _, run := range left(t, groups) {
			if strings.Contains(run, "online") {
				if err := groups.Kill(t.Context(), run, cgroup.CPU); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if _, err := Run(t.Context(), config); err == nil || !strings.Contains(err.Error(), "online: it ended") {
		t.Errorf("error %v, want that the service ended", err)
	}
	if groups := left(t, groups); len(groups) > 0 {
		t.Errorf("groups are left: %v", groups)
	}
}

// TestCheck checks that each wrong value is named.
func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*Config){
		`only "alone" runs without`: func(c *Config) { c.Conditions[0].Batch = true },
		`"idle" is there twice`:     func(c *Config) { c.Conditions[1].Name = "idle" },
		"a condition besides":       func(c *Config) { c.Conditions = c.Conditions[:1] },
		"a threshold of 2":          func(c *Config) { c.Conditions[3].Threshold = 2 },
		"at most 80%":               func(c *Config) { c.Online = 0.9 },
		"1 byte or more":            func(c *Config) { c.Hash = 0 },
		"needs a thread":            func(c *Config) { c.Threads = 0 },
		"100ms or more":             func(c *Config) { c.Window = 0 },
		"time to settle":            func(c *Config) { c.Settle = -1 },
		"a round":                   func(c *Config) { c.Rounds = 0 },
		"foreign CPU time":          func(c *Config) { c.Foreign = 0 },
		"repetitions":               func(c *Config) { c.Repeated = -1 },
	} {
		config := small()
		change(&config)
		if err := config.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := small().Check(); err != nil {
		t.Error(err)
	}
}
