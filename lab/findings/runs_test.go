package findings

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/test/must"
)

// maker makes runs whose values are random, with a seed.
type maker struct {
	testing.TB
	*rand.Rand
}

func newMaker(t testing.TB) maker { return maker{t, rand.New(rand.NewPCG(1, 2))} }

// base returns an experiment without conditions.
func base(name, question string, rounds int) experiment.Config {
	second := experiment.Duration{Duration: time.Second}
	return experiment.Config{
		Version: experiment.Version, Name: name, Question: question, Source: "A document about " + name, Rounds: rounds,
		Window: experiment.Duration{Duration: 10 * time.Second}, Settle: second, Foreign: .05, Repeated: 3, Seed: 1,
		Quick: experiment.Quick{Rounds: 3, Window: second},
	}
}

func machine() experiment.Environment {
	return experiment.Environment{
		Started: time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC), Pinfold: "1.0", Kernel: "6.18.5", Model: "Example CPU 2.5 GHz", CPUs: 2, Cores: 2, Nodes: 1,
		Cgroup: 2, Load: .12, Hardened: []string{"spectre_v2: retpolines"},
		Programs: map[experiment.Program]string{experiment.Web: "built in"},
	}
}

// settings are those of the service web in a condition.
func settings(t testing.TB, name, baseline string, web map[string]any) experiment.Condition {
	t.Helper()
	raw := must.Get(json.Marshal(web))(t)
	return experiment.Condition{Name: name, Baseline: baseline, Services: map[string]json.RawMessage{"web": raw}}
}

// burst returns a run with latencies, throttling, usage and two loads.
func (m maker) burst(rounds int) Run {
	c := base("burst", "Does burst shorten the latency of a server with a quota?", rounds)
	c.CPUs = 4
	c.Services = []experiment.Service{{Name: "web", Program: experiment.Web, Threads: experiment.Amount{Value: 4},
		Request: experiment.Request{CPU: experiment.Duration{Duration: 3 * time.Millisecond}}}}
	every := experiment.Duration{Duration: 503 * time.Millisecond}
	c.Loads = []experiment.Load{{Name: "batches of 4", Client: experiment.Batches, Batch: experiment.Amount{Value: 4}, Every: every},
		{Name: "batches of 12", Client: experiment.Batches, Batch: experiment.Amount{Value: 12}, Every: every}}
	c.Conditions = []experiment.Condition{{Name: "without a limit"}, settings(m, "quota", "", map[string]any{"limit": 1}),
		settings(m, "quota + burst", "quota", map[string]any{"limit": 1, "burst": 1})}
	c.Figures = []experiment.Figure{experiment.Mean, experiment.P50, experiment.P99, experiment.P999, experiment.Throttled, experiment.Used}
	c.Answers = []experiment.Answer{{Figure: experiment.P99, Condition: "quota + burst"}, {Figure: experiment.P99, Condition: "quota", Load: "batches of 12"}}
	c.Published = []experiment.Published{
		{Answer: c.Answers[0], Value: 71.3, Of: 111.7, Note: "The document's server was larger."},
		{Answer: experiment.Answer{Figure: experiment.Throttled, Condition: "quota + burst"}, Value: 0, Of: .33},
		{Answer: experiment.Answer{Figure: experiment.Used, Condition: "quota"}, Value: .32},
	}
	c.Notes = []string{"Requests come from the same machine, so the load generator competes with the server."}
	r := Run{Result: experiment.Result{Config: c, Environment: machine(), Complete: true}, Usage: &trace.Recording{Interval: 10 * time.Millisecond}}
	for round := range rounds {
		for _, load := range c.Loads {
			for i, condition := range c.Conditions {
				m.addWindow(&r, round, condition.Name, load.Name, []float64{30, 100, 32}[i], []float64{0, .3, 0}[i])
			}
		}
	}
	for i, condition := range c.Conditions {
		r.Result.Explained = append(r.Result.Explained, experiment.Explanation{Condition: condition.Name, Load: "batches of 4", Window: 2 * time.Second,
			Parts: blame.Parts{Running: 300 * time.Millisecond, Throttled: []time.Duration{0, 900, 5}[i] * time.Millisecond, Others: 80 * time.Millisecond,
				Own: 120 * time.Millisecond, Idle: 10 * time.Millisecond}})
	}
	return r
}

// addWindow adds a window of 10 s, and sometimes a disturbed one before it.
func (m maker) addWindow(r *Run, round int, condition, load string, slowest, throttled float64) {
	w := experiment.Window{Round: round, Condition: condition, Load: load}
	if n := len(r.Result.Windows); n > 0 {
		w.From = r.Result.Windows[n-1].To + time.Second
	}
	w.To = w.From + 10*time.Second
	if m.IntN(10) == 0 {
		w.Disturbed = fmt.Sprintf("other processes used %.1f%% of the CPUs", 5+10*m.Float64())
		r.Result.Windows = append(r.Result.Windows, w)
		w.From, w.To, w.Disturbed = w.To+time.Second, w.To+11*time.Second, ""
	}
	h := hdr.New(1, 60_000_000, 3)
	for range 160 {
		latency := 3000 + m.ExpFloat64()*4000
		if m.Float64() < .2 {
			latency += m.Float64() * 1000 * slowest
		}
		must.Do(m, h.RecordValue(int64(latency)))
	}
	encoded := must.Get(h.Encode(hdr.V2CompressedEncodingCookieBase))(m)
	at := func(percentile float64) float64 { return float64(h.ValueAtPercentile(percentile)) / 1000 }
	w.Latencies = encoded
	w.Figures = map[experiment.Figure]float64{
		experiment.Mean: h.Mean() / 1000, experiment.P50: at(50), experiment.P99: at(99), experiment.P999: at(99.9),
		experiment.Throttled: throttled * (.9 + .2*m.Float64()), experiment.Used: .3 + .01*m.Float64(),
		experiment.Cost: 90 + 10*m.Float64(), experiment.Generator: .01 + .001*m.Float64(), experiment.Lateness: m.Float64(),
	}
	r.Result.Windows = append(r.Result.Windows, w)
	m.addUsage(r.Usage, w, throttled > 0)
}

// addUsage adds a batch of requests every 503 ms to the recording.
func (m maker) addUsage(r *trace.Recording, w experiment.Window, throttled bool) {
	group := "/" + w.Condition + "/" + w.Load + "/web"
	i := len(r.Series)
	for j := range r.Series {
		if r.Series[j].Group == group {
			i = j
		}
	}
	if i == len(r.Series) {
		r.Series = append(r.Series, trace.Series{Group: group})
	}
	for at := w.From + r.Interval; at <= w.To; at += r.Interval {
		phase := (at - w.From) % (503 * time.Millisecond)
		s := trace.Sample{At: at, Interval: r.Interval, Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: trace.DefaultPeriod}}
		if phase < 60*time.Millisecond {
			s.Usage = time.Duration(float64(r.Interval) * (1.5 + .4*m.Float64()))
		}
		if throttled && phase >= 100*time.Millisecond && phase < 110*time.Millisecond {
			s.Throttled = 1
		}
		r.Series[i].Samples = append(r.Series[i].Samples, s)
	}
}

// cycles returns a run with goodput, without a load.
func (m maker) cycles() Run {
	c := base("cycles", "Is a thread that sleeps most of the time slowed down by a limit above its usage?", 8)
	millisecond := func(n time.Duration) experiment.Duration { return experiment.Duration{Duration: n * time.Millisecond} }
	c.Services = []experiment.Service{{Name: "web", Program: experiment.Cycles, Threads: experiment.Amount{Value: 4}, Compute: millisecond(200), Sleep: millisecond(2000)}}
	c.Conditions = []experiment.Condition{{Name: "unlimited"}, settings(m, "limit 2 CPUs", "", map[string]any{"limit": 2})}
	c.Figures = []experiment.Figure{experiment.Goodput, experiment.Used, experiment.PeakSlow, experiment.P99}
	c.Answers = []experiment.Answer{{Figure: experiment.Goodput, Condition: "limit 2 CPUs"}}
	c.Published = []experiment.Published{{Answer: c.Answers[0], Value: 2.3e6, Of: 4e6, Text: "2.3M"}}
	r := Run{Result: experiment.Result{Config: c, Environment: machine(), Complete: true}}
	r.Result.Environment.Quick = true
	for round := range 8 {
		for i, condition := range c.Conditions {
			r.Result.Windows = append(r.Result.Windows, experiment.Window{Round: round, Condition: condition.Name, Figures: map[experiment.Figure]float64{
				experiment.Goodput: []float64{4e6, 3.1e6}[i] * (.98 + .04*m.Float64()), experiment.Used: .36 + .01*m.Float64(),
			}})
		}
	}
	return r
}

// incomplete returns a run with too few rounds.
func (m maker) incomplete() Run {
	r := m.burst(3)
	r.Result.Config.Name, r.Result.Complete, r.Result.Ended = "incomplete", false, "interrupted"
	r.Result.Explained, r.Usage = nil, nil
	return r
}

// zero returns a run whose baseline is 0%.
func (m maker) zero() Run {
	r := m.burst(7)
	c := &r.Result.Config
	c.Name, c.Notes, c.Figures = "zero", nil, slices.DeleteFunc(c.Figures, func(f experiment.Figure) bool { return f == experiment.P999 })
	c.Answers = []experiment.Answer{{Figure: experiment.Throttled, Condition: "quota"}, {Figure: experiment.Throttled, Condition: "quota + burst"},
		{Figure: experiment.Throttled, Condition: "without a limit"}}
	c.Published = []experiment.Published{{Answer: c.Answers[0], Value: .33, Of: .01}, {Answer: c.Answers[1], Value: .2}}
	return r
}

// runs returns one run of each kind.
func runs(t testing.TB) []Run {
	m := newMaker(t)
	return []Run{m.burst(9), m.cycles(), m.incomplete(), m.zero()}
}

// infinite returns the interval of too few rounds.
func infinite(median float64, rounds int) experiment.Value {
	return experiment.Value{Estimate: median, Low: math.Inf(-1), High: math.Inf(1), Rounds: rounds}
}

// TestAgain: a run agrees with itself, and one of another machine is counted apart.
func TestAgain(t *testing.T) {
	m := newMaker(t)
	a, b := m.burst(12), m.burst(12)
	text, apart := again(Prepare([]Run{a, a}))
	var agree, pairs, alikeAgree, alike int
	const form = "Several runs of an experiment: in %d of %d changes the intervals of two runs overlap; in %d of %d if both were on the same model of machine."
	must.Get(fmt.Sscanf(text, form, &agree, &pairs, &alikeAgree, &alike))(t)
	if pairs == 0 || agree != pairs || alikeAgree != pairs || alike != pairs || apart.Groups != nil {
		t.Errorf("%s %v", text, apart)
	}
	b.Result.Environment.Model = "Another CPU"
	text, apart = again(Prepare([]Run{a, b}))
	must.Get(fmt.Sscanf(text, form, &agree, &pairs, &alikeAgree, &alike))(t)
	if pairs == 0 || alike != 0 || len(apart.flat()) != pairs-agree {
		t.Errorf("%s %v", text, apart)
	}
	if text, _ = again(Prepare([]Run{a})); text != "" {
		t.Errorf("of one run: %s", text)
	}
}
