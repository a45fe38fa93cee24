package experiment

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/test/must"
)

// small returns a valid experiment.
func small() Config {
	return Config{
		Version: Version, Name: "small", Question: "Why?", CPUs: 4,
		Rounds: 6, Window: Duration{time.Second}, Quick: Quick{1, Duration{time.Second}}, Foreign: .05,
		Services:   []Service{{Name: "web", Program: Web}, {Name: "batch", Program: Batch, Stopped: true}},
		Loads:      []Load{{Name: "load", Client: Random, Use: .3}},
		Conditions: []Condition{{Name: "alone"}, {Name: "with", Services: settings(`{"batch":{"stopped":false,"priority":"idle"}}`)}},
		Figures:    []Figure{P99}, Answers: []Answer{{Figure: P99, Condition: "with"}},
	}
}

// settings returns the settings of services in a condition.
func settings(text string) (all map[string]json.RawMessage) {
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		panic(err)
	}
	return all
}

// TestCheck checks that each wrong value is named.
func TestCheck(t *testing.T) {
	with := func(text string) func(*Config) {
		return func(c *Config) { c.Conditions[1].Services = settings(text) }
	}
	predict := func(p Published) func(*Config) {
		return func(c *Config) {
			c.Loads = nil
			c.Services[0] = Service{Name: "web", Program: Demand, Use: .1}
			c.Conditions[1].Services = settings(`{"web": {"limit": 1}}`)
			c.Published = []Published{p}
		}
	}
	for want, change := range map[string]func(*Config){
		"version 2":                            func(c *Config) { c.Version = 2 },
		`name: ""`:                             func(c *Config) { c.Name = "" },
		`name: "../x"`:                         func(c *Config) { c.Name = "../x" },
		"question is missing":                  func(c *Config) { c.Question = "" },
		"cpus: -1":                             func(c *Config) { c.CPUs = -1 },
		"rounds: 0":                            func(c *Config) { c.Rounds = 0 },
		"quick.rounds: 1001":                   func(c *Config) { c.Quick.Rounds = 1001 },
		"window: 1ms":                          func(c *Config) { c.Window.Duration = time.Millisecond },
		"foreign: 0%":                          func(c *Config) { c.Foreign = 0 },
		"repeated: -1":                         func(c *Config) { c.Repeated = -1 },
		"must be a service":                    func(c *Config) { c.Services = nil },
		"must be a condition":                  func(c *Config) { c.Conditions = nil },
		`service "web"`:                        func(c *Config) { c.Services[1].Name = "web" },
		`condition "a/b"`:                      func(c *Config) { c.Conditions[1].Name = "a/b" },
		`no condition "x" to compare`:          func(c *Config) { c.Conditions[1].Baseline = "x" },
		`there is no service "x"`:              with(`{"x": {}}`),
		`unknown field "x"`:                    with(`{"web": {"x": 1}}`),
		"cannot have another name":             with(`{"web": {"name": "x"}}`),
		"the first service must run":           with(`{"web": {"stopped": true}}`),
		`program: "x"`:                         with(`{"web": {"program": "x"}}`),
		"replicas: 65":                         with(`{"web": {"replicas": 65}}`),
		"can call another":                     with(`{"batch": {"chain": true}}`),
		"needs compute and sleep":              with(`{"batch": {"program": "cycles"}}`),
		"needs digits":                         with(`{"batch": {"program": "pi"}}`),
		"does not serve requests":              with(`{"batch": {"request": {"hash": 1}}}`),
		"hash must not be":                     with(`{"web": {"request": {"hash": -1}}}`),
		"period: 2s":                           with(`{"web": {"period": "2s"}}`),
		"burst, raise and policy need a limit": with(`{"web": {"burst": 1}}`),
		"burst: 200%":                          with(`{"web": {"limit": 1, "burst": 2}}`),
		`policy: "x"`:                          with(`{"web": {"limit": 1, "policy": "x"}}`),
		`priority: "x"`:                        with(`{"web": {"priority": "x"}}`),
		`cannot have a limit or a budget`:      with(`{"web": {"priority": "sched_ext", "limit": 1}}`),
		"budget: 110%":                         with(`{"batch": {"budget": "110%"}}`),
		"has no budget":                        with(`{"batch": {"budget": 0.5, "limit": 1}}`),
		"use a number from 0":                  with(`{"web": {"limit": "many"}}`),
		"use a duration with its unit":         with(`{"web": {"period": "5"}}`),
		"must be a share such as 5% or 0.05":   with(`{"web": {"burst": "half"}}`),
		`client: "x"`:                          func(c *Config) { c.Loads[0].Client = "x" },
		"need batch and every":                 func(c *Config) { c.Loads[0].Client = Batches },
		"use: 90%":                             func(c *Config) { c.Loads[0].Use = .9 },
		"needs clients":                        func(c *Config) { c.Loads[0].Client = OnOff },
		"needs active and inactive":            func(c *Config) { c.Loads[0] = Load{Name: "load", Client: OnOff, Clients: Amount{Value: 1}} },
		`figures: there is no figure "x"`:      func(c *Config) { c.Figures = []Figure{"x"} },
		"answers: there must be one":           func(c *Config) { c.Answers = nil },
		`there is no condition "x"`:            func(c *Config) { c.Answers[0].Condition = "x" },
		`there is no load "x"`: func(c *Config) {
			c.Published = []Published{{Answer: Answer{Figure: P99, Condition: "with", Load: "x"}}}
		},
		"only [": predict(Published{Answer: Answer{Figure: P99, Condition: "with"}, From: "alone"}),
		`for the program "demand" with the default period`: func(c *Config) {
			predict(Published{Answer: Answer{Figure: Full, Condition: "with"}, From: "alone"})(c)
			c.Services[0].Period = Duration{time.Second}
		},
		"not both":                       predict(Published{Answer: Answer{Figure: Full, Condition: "with"}, From: "alone", Value: 1}),
		"for a condition with a limit":   predict(Published{Answer: Answer{Figure: Full, Condition: "alone"}, From: "alone"}),
		`there is no condition "absent"`: predict(Published{Answer: Answer{Figure: Full, Condition: "with"}, From: "absent"}),
		"from the usage under a load": func(c *Config) {
			predict(Published{Answer: Answer{Figure: Full, Condition: "with"}, From: "alone"})(c)
			c.Loads = []Load{{Name: "load", Client: Random, Use: .3}}
		},
		`program "demand" needs use`: with(`{"batch": {"program": "demand"}}`),
	} {
		c := small()
		change(&c)
		if err := c.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := small().Check(); err != nil {
		t.Error(err)
	}
}

// TestSetups checks that the settings of a condition affect no other one, and that each is under
// each load, with the amounts of the machine.
func TestSetups(t *testing.T) {
	c := small()
	c.Settle, c.Conditions[1].Settle = Duration{1}, Duration{2}
	c.Loads = append(c.Loads, Load{Name: "batches", Batch: Amount{Value: 8}})
	for range 2 {
		setups, err := c.Setups(2)
		if err != nil || len(setups) != 4 {
			t.Fatalf("%+v, error %v", setups, err)
		}
		for i, want := range []Setup{{Condition: "alone", Load: &c.Loads[0], Settle: 1}, {Condition: "alone", Load: &Load{Name: "batches", Batch: Amount{Value: 4}}, Settle: 1},
			{Condition: "with", Load: &c.Loads[0], Settle: 2}, {Condition: "with", Load: &Load{Name: "batches", Batch: Amount{Value: 4}}, Settle: 2}} {
			want.Services = []Service{c.Services[0], {Name: "batch", Program: Batch, Stopped: i < 2}}
			if i >= 2 {
				want.Services[1].Priority = Idle
			}
			if diff := cmp.Diff(want, setups[i]); diff != "" {
				t.Errorf("setup %d (-want +got):\n%s", i, diff)
			}
		}
	}
	c.Loads = nil
	if setups, err := c.Setups(2); err != nil || len(setups) != 2 || setups[0].Load != nil {
		t.Errorf("without a load: %+v, error %v", setups, err)
	}
}

// TestScale checks amounts and limits on machines of several sizes.
func TestScale(t *testing.T) {
	four, half := Amount{Value: 4}, Amount{Value: .5, Relative: true}
	for _, test := range []struct {
		cpus         int
		four, half   float64
		count        int // of four
		quota, burst time.Duration
	}{
		{104, 4, 52, 4, 400 * time.Millisecond, 200 * time.Millisecond},
		{8, 4, 4, 4, 400 * time.Millisecond, 200 * time.Millisecond},
		{2, 1, 1, 1, 100 * time.Millisecond, 50 * time.Millisecond},
		{1, .5, .5, 1, 50 * time.Millisecond, 25 * time.Millisecond},
	} {
		scale := Scale{CPUs: test.cpus, Full: 8}
		limits := Service{Limit: four, Burst: .5}.on(scale).Limits()
		want := bandwidth.Limits{Quota: test.quota, Period: 100 * time.Millisecond, Burst: test.burst}
		if four.On(scale).Value != test.four || half.On(scale) != (Amount{Value: test.half}) || four.On(scale).Count() != test.count || limits != want {
			t.Errorf("on %d CPUs: %g, %g, %d, %+v", test.cpus, four.On(scale).Value, half.On(scale).Value, four.On(scale).Count(), limits)
		}
	}
	if l := (Service{}).Limits(); l.Quota != bandwidth.Unlimited {
		t.Errorf("without a limit: %+v", l)
	}
}

// TestFile writes and reads a result, and reads damaged and incomplete ones.
func TestFile(t *testing.T) {
	var file bytes.Buffer
	environment := Environment{Started: time.Unix(1, 2).UTC(), CPUs: 2, Programs: map[Program]string{Web: "built in"}}
	w := must.Get(NewWriter(&file, small(), environment))(t)
	windows := []Window{
		{Condition: "alone", Load: "load", From: 1, To: 2, Figures: map[Figure]float64{P99: 1.5}, Latencies: []byte{1, 2}},
		{Condition: "with", Load: "load", Disturbed: "other processes"},
	}
	for _, window := range windows {
		must.Do(t, w.Window(window))
	}
	killed := file.String()
	explained := []Explanation{{Condition: "alone", Load: "load", Window: time.Second, Parts: blame.Parts{Running: 1, Own: 2}}}
	must.Do(t, w.End(explained, nil))
	want := Result{Config: small(), Environment: environment, Windows: windows, Explained: explained, Complete: true}
	have, err := Read(&file)
	if diff := cmp.Diff(want, have); err != nil || diff != "" {
		t.Errorf("error %v, %s", err, diff)
	}
	for _, cut := range []int{0, 1, 20} { // the last window is the shortest line
		have, err := Read(strings.NewReader(killed[:len(killed)-cut]))
		if err != nil || have.Complete || have.Ended != "it was killed" || len(have.Windows) != 2-min(1, cut/2) {
			t.Errorf("without the last %d bytes: %d windows, complete %t, ended %q, error %v", cut, len(have.Windows), have.Complete, have.Ended, err)
		}
	}
	head, _, _ := strings.Cut(killed, "\n")
	for text, want := range map[string]string{
		"":                           "the first line is not an experiment",
		"{}":                         "the first line is not an experiment",
		"[]":                         "the first line is not an experiment",
		head + "\n{\"unknown\":1}":   "line 2 is neither",
		head + "\n{\"round\":\"1\"}": "line 2 is neither",
	} {
		if _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q...: error %v, want %q", text, err, want)
		}
	}
}

// FuzzRead checks that damaged files give an error or a result, and that what is read can be
// written.
func FuzzRead(f *testing.F) {
	var file bytes.Buffer
	w := must.Get(NewWriter(&file, small(), Environment{}))(f)
	must.Do(f, w.Window(Window{Condition: "alone", Figures: map[Figure]float64{P99: 1}}))
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		must.Get(NewWriter(&bytes.Buffer{}, r.Config, r.Environment))(t)
		for _, a := range r.Config.Answers {
			r.Compare(a).Verdict()
		}
	})
}
