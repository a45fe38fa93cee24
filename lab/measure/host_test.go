package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/compute"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/lab/host"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptree"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/local/workload"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/race"
)

// TestMain runs this program as a helper of confine and as the programs of experiments.
func TestMain(m *testing.M) {
	if status, ok := confine.Helper(os.Args[1:]); ok {
		os.Exit(status)
	}
	if len(os.Args) > 2 && os.Args[1] == "workload" {
		os.Exit(runWorkload(os.Args[2], os.Args[3:]))
	}
	os.Exit(m.Run())
}

func runWorkload(name string, args []string) (status int) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if name == "web" {
		next := ""
		for _, arg := range args {
			if url, ok := strings.CutPrefix(arg, "--next="); ok {
				next = url
			}
		}
		_ = workload.Server{Size: 1, Next: next}.Serve(ctx, "127.0.0.1:0", os.Stdout) // ends with the test
		return 0
	}
	fmt.Println("computing")
	switch name {
	case "batch":
		compute.Batch(ctx, 2, os.Stdout)
	case "cycles":
		compute.Cycles(ctx, 2, 30*time.Millisecond, 30*time.Millisecond, os.Stdout)
	case "demand":
		compute.Demand(ctx, 2, 5*time.Millisecond, trace.DefaultPeriod, rand.New(rand.NewPCG(1, 2)), os.Stdout)
	case "pi":
		compute.Pi(ctx, 500, 10, os.Stdout)
	}
	return 0
}

// small returns an experiment of a few seconds.
func small() experiment.Config {
	c := experiment.Config{
		Version: experiment.Version, Name: "small", Question: "Does it work?",
		Rounds: 1, Window: experiment.Duration{Duration: 400 * time.Millisecond}, Settle: experiment.Duration{Duration: 100 * time.Millisecond},
		Quick: experiment.Quick{Rounds: 1, Window: experiment.Duration{Duration: 100 * time.Millisecond}}, Foreign: 1, Seed: 1,
		Services: []experiment.Service{
			{Name: "online", Program: experiment.Web, Request: experiment.Request{Hash: 100_000}},
			{Name: "batch", Program: experiment.Batch, Stopped: true},
		},
		Loads:   []experiment.Load{{Name: "random", Client: experiment.Random, Use: .1}},
		Figures: []experiment.Figure{experiment.P99},
		Answers: []experiment.Answer{{Figure: experiment.P99, Condition: "least"}},
	}
	for name, batch := range map[string]string{
		"least": `{"stopped":false,"priority":"least"}`, "idle": `{"stopped":false,"priority":"idle"}`,
		"budget": `{"stopped":false,"priority":"idle","budget":0.6}`, "half": `{"stopped":false,"cpus":"50%"}`,
		"limit": `{"stopped":false,"limit":0.5,"burst":"50%"}`, "two": `{"stopped":false,"replicas":2}`,
		"cores": `{"stopped":false,"priority":"core-scheduling"}`, "scheduler": `{"stopped":false,"priority":"sched_ext"}`,
		"identity": `{"stopped":false,"priority":"bvt"}`,
	} {
		c.Conditions = append(c.Conditions, experiment.Condition{Name: name, Services: map[string]json.RawMessage{"batch": json.RawMessage(batch)}})
	}
	c.Conditions = append([]experiment.Condition{{Name: "alone"}}, c.Conditions...)
	return c
}

func options(t *testing.T) Options {
	return Options{
		Dir: filepath.Join(t.TempDir(), "run"), Version: "test",
		Workload: func(args ...string) []string { return append([]string{os.Args[0], "workload"}, args...) },
		Progress: func(message string) { t.Log(message) },
	}
}

// expectNoGroups checks that no groups of experiments of this process are left.
func expectNoGroups(t *testing.T, groups *cgroup.FS) {
	t.Helper()
	runs := must.Get(confine.Runs(groups))(t)
	left := slices.DeleteFunc(runs, func(run string) bool { return !strings.Contains(run, fmt.Sprintf("lab-%d-", os.Getpid())) })
	if len(left) > 0 {
		t.Errorf("groups are left: %v", left)
	}
}

// measure runs an experiment, again if other programs left one with the least priority no CPU time
// to start, or if another run measures.
func measure(t *testing.T, c experiment.Config, o Options) {
	t.Helper()
	busy.Repeat(t, 2, func() (disturbed string) {
		must.Do(t, os.RemoveAll(o.Dir))
		err := Run(t.Context(), c, o)
		if err != nil && (strings.Contains(err.Error(), "it was not ready after") || strings.Contains(err.Error(), "another run")) {
			return err.Error()
		}
		must.Do(t, err)
		return ""
	})
}

// TestRun measures one window of each condition on cgroups of this machine.
func TestRun(t *testing.T) {
	groups := cgrouptest.OpenHost(t)
	config, o := small(), options(t)
	meter := busy.Start()
	measure(t, config, o)
	stolen := meter.Read().Stolen > 0.01 // such time counts as used
	expectNoGroups(t, groups)
	result, usage, err := Open(o.Dir)
	if err != nil || !result.Complete || result.Environment.Pinfold != "test" {
		t.Fatalf("%+v, error %v", result, err)
	}
	left := len(config.Conditions)
	for name, why := range map[string]string{"cores": "core", "scheduler": "sched_ext", "identity": "bvt_warp_ns"} {
		out := slices.ContainsFunc(result.Config.Notes, func(note string) bool {
			return strings.Contains(note, `"`+name+`" was left out`) && strings.Contains(note, why)
		})
		if out {
			left--
		} else if !slices.ContainsFunc(result.Windows, func(w experiment.Window) bool { return w.Condition == name }) {
			t.Errorf("the condition %s was neither measured nor left out: %v", name, result.Config.Notes)
		}
	}
	if len(result.Windows) != left {
		t.Fatalf("%d windows, want %d", len(result.Windows), left)
	}
	most := map[string]float64{"alone": 0.05, "budget": 0.7, "half": 0.6, "limit": .35} // of the CPUs, for batch work
	cpus := float64(result.Environment.CPUs)
	for _, w := range result.Windows {
		f := w.Figures
		t.Logf("%s: %v", w.Condition, f)
		if f[experiment.Calls] == 0 || f[experiment.P50] <= 0 || f[experiment.P50] > f[experiment.P99] || f[experiment.P99] > f[experiment.Longest] {
			t.Errorf("%s: wrong latencies", w.Condition)
		}
		if f[experiment.Used] <= 0 || f[experiment.Generator] <= 0 || f[experiment.Machine] <= 0 || f[experiment.Machine] > 1.1 || f[experiment.Cost] <= 0 {
			t.Errorf("%s: wrong usage", w.Condition)
		}
		// Batch work has little or nothing beside much other work on this machine.
		limit, limited := most[w.Condition]
		if share := f[experiment.Others] / cpus; limited && share > limit && !stolen || w.Condition != "alone" && share <= 0 && !starved(w) {
			t.Errorf("%s: batch work used %.1f%% of the CPUs, want at most %.0f%%", w.Condition, 100*share, 100*limit)
		}
		h := must.Get(hdrhistogram.Decode(w.Latencies))(t)
		if longest := float64(h.Max()) / 1000; math.Abs(longest-f[experiment.Longest]) > 0.01*f[experiment.Longest] {
			t.Errorf("%s: a longest latency of %.3f ms in the histogram, %.3f ms exactly", w.Condition, longest, f[experiment.Longest])
		}
		name := "/" + w.Condition + "/random/online"
		i := slices.IndexFunc(usage.Series, func(s trace.Series) bool { return s.Group == name })
		if i < 0 || len(usage.Series[i].Samples) == 0 || usage.Series[i].Samples[0].At < w.From || usage.Series[i].Samples[0].At > w.To {
			t.Errorf("%s: no recording from %v to %v", name, w.From, w.To)
		}
	}
}

// starved reports whether others used so much in a window that a service may have got nothing.
func starved(w experiment.Window) bool { return w.Figures[experiment.Foreign] > .4 }

// TestExplained checks where the time of a throttled service went, if this machine's scheduler can
// be traced.
func TestExplained(t *testing.T) {
	cgrouptest.OpenHost(t)
	config, o := small(), options(t)
	config.Services[0].Request.Hash = 0
	config.Services = config.Services[:1]
	config.Loads = nil
	config.Services[0] = experiment.Service{Name: "worker", Program: experiment.Cycles, Compute: experiment.Duration{Duration: 1}, Sleep: experiment.Duration{Duration: 1}}
	config.Conditions = []experiment.Condition{{Name: "free"}, {Name: "limit", Services: map[string]json.RawMessage{"worker": json.RawMessage(`{"limit":0.2}`)}}}
	config.Answers[0] = experiment.Answer{Figure: experiment.Goodput, Condition: "limit"}
	measure(t, config, o)
	result, _, err := Open(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range result.Windows {
		if w.Figures[experiment.Goodput] <= 0 || (w.Figures[experiment.Throttled] > 0) != (w.Condition == "limit") && !starved(w) {
			t.Errorf("%s: %v", w.Condition, w.Figures)
		}
	}
	if len(result.Explained) == 0 {
		t.Skip("this machine's scheduler cannot be traced")
	}
	for _, e := range result.Explained {
		if e.Running <= 0 || (e.Throttled > 0) != (e.Condition == "limit") && e.Others < e.Running {
			t.Errorf("%s: %+v", e.Condition, e.Parts)
		}
	}
}

// TestEnds ends experiments in the middle. What was measured is kept.
func TestEnds(t *testing.T) {
	ended := errors.New("ended by the test")
	kill := func(t *testing.T, groups *cgroup.FS, _ context.CancelCauseFunc) {
		runs, err := confine.Runs(groups)
		for _, run := range runs {
			if strings.Contains(run, fmt.Sprintf("lab-%d-", os.Getpid())) {
				err = errors.Join(err, cgrouptree.Kill(t.Context(), groups, run, cgroup.CPU))
			}
		}
		if err != nil {
			t.Error(err)
		}
	}
	for _, test := range []struct {
		name string
		end  func(*testing.T, *cgroup.FS, context.CancelCauseFunc)
		want string
	}{
		{"interrupted", func(_ *testing.T, _ *cgroup.FS, cancel context.CancelCauseFunc) { cancel(ended) }, ended.Error()},
		{"programs are killed", kill, " 1 "}, // "online 1 ended with status 137"
	} {
		t.Run(test.name, func(t *testing.T) {
			groups := cgrouptest.OpenHost(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			config, o := small(), options(t)
			config.Rounds, config.Services = 1000, config.Services[:1]
			config.Conditions = []experiment.Condition{{Name: "free"}, {Name: "limit", Services: map[string]json.RawMessage{"online": json.RawMessage(`{"limit":1}`)}}}
			config.Answers[0].Condition = "limit"
			o.Progress = func(message string) {
				if strings.Contains(message, "window 3 ") { // the fourth begins
					time.AfterFunc(300*time.Millisecond, func() { test.end(t, groups, cancel) })
				}
			}
			if err := Run(ctx, config, o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			expectNoGroups(t, groups)
			result, usage, err := Open(o.Dir)
			if err != nil || result.Complete || !strings.Contains(result.Ended, test.want) || len(result.Windows) < 3 || usage == nil {
				t.Errorf("%d windows, complete %t, ended %q, error %v", len(result.Windows), result.Complete, result.Ended, err)
			}
		})
	}
}

// TestProgramEnds runs a program that ends at once.
func TestProgramEnds(t *testing.T) {
	groups := cgrouptest.OpenHost(t)
	o := options(t)
	o.Workload = func(...string) []string { return []string{"/bin/true"} }
	if err := Run(t.Context(), small(), o); err == nil || !strings.Contains(err.Error(), "online 1 did not start") {
		t.Errorf("error %v, want that the service did not start", err)
	}
	expectNoGroups(t, groups)
}

// TestOneRun checks that only one run measures at a time.
func TestOneRun(t *testing.T) {
	cgrouptest.OpenHost(t)
	release := must.Get(host.Lock())(t)
	o := options(t)
	if err := Run(t.Context(), small(), o); err == nil || !strings.Contains(err.Error(), "another run") {
		t.Errorf("error %v, want that another run measures", err)
	}
	release()
	if _, err := os.Stat(o.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of the run: %v, want that there is none", err)
	}
	must.Do(t, os.Mkdir(o.Dir, 0o700))
	if err := Run(t.Context(), small(), o); !errors.Is(err, fs.ErrExist) {
		t.Errorf("error %v, want that the directory exists", err)
	}
}

// TestConfigs runs one short round of every experiment, with its first and its last condition.
func TestConfigs(t *testing.T) {
	race.SkipLong(t)
	groups := cgrouptest.OpenHost(t)
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			c := must.Get(Named(name))(t)
			if c.Name != name {
				t.Errorf("the experiment is called %q", c.Name)
			}
			c.Repeated, c.Foreign = 0, 1
			c.Conditions = slices.Concat(c.Conditions[:1], c.Conditions[len(c.Conditions)-1:])
			for i := range c.Conditions {
				c.Conditions[i].Settle.Duration = 0
			}
			c.Quick.Window.Duration, c.Settle.Duration = 200*time.Millisecond, min(c.Settle.Duration, 50*time.Millisecond)
			o := options(t)
			o.Quick, o.Rounds = true, 1
			measure(t, c, o)
			expectNoGroups(t, groups)
		})
	}
}
