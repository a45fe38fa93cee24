package findings

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/trace"
)

// TestAgree compares answers of two runs.
func TestAgree(t *testing.T) {
	r := newMaker(t).burst(1)
	a := r.Result.Config.Answers[0]
	of := func(f experiment.Figure, v, base, ratio experiment.Value) experiment.Comparison {
		c := compared(f, v, base, ratio)
		c.Condition, c.Baseline, c.Load = a.Condition, "quota", "batches of 4"
		return c
	}
	ratio := func(low, estimate, high float64) experiment.Comparison {
		return of(experiment.P99, value(5, 6, 7), value(11, 12, 13), value(low, estimate, high))
	}
	share := func(low, estimate, high float64) experiment.Comparison {
		return of(experiment.Throttled, value(low, estimate, high), value(.2, .3, .4), experiment.Value{})
	}
	unlike := ratio(.4, .5, .6)
	unlike.Unlike = "too few requests"
	for _, test := range []struct {
		this, other experiment.Comparison
		says        string
	}{
		{ratio(.45, .5, .55), ratio(.5, .55, .6), "agree: 21% lower to 4.0% higher"},
		{ratio(.4, .5, .6), ratio(.7, .8, .9), "differ: 38% lower (22% to 51%)"},
		{ratio(.4, .5, .6), ratio(.8, .95, 1.1), "differ: 47% lower (32% to 60%)"},
		{ratio(.6, .8, 1), ratio(.8, .9, 1.1), "cannot conclude: 37% lower to 14% higher"},
		{ratio(.985, 1, 1.015), ratio(.99, 1.01, 1.018), "agree: both the same within 2.0%"},
		{share(0, 0, .001), share(0, 0, .002), "agree"},
		{share(.1, .11, .12), share(0, 0, .002), "differ: by 9.98 points to 12.0 points"},
		{of(experiment.P99, value(1, 2, 3), value(1, 2, 3), infinite(.5, 3)), ratio(.4, .5, .6), "cannot conclude: too few rounds"},
		{share(0, 0, .001), of(experiment.Throttled, infinite(0, 3), value(.2, .3, .4), experiment.Value{}), "cannot conclude: too few rounds"},
		{of(experiment.P99, experiment.Value{}, value(1, 2, 3), experiment.Value{}), ratio(.4, .5, .6), "cannot conclude"},
		{unlike, ratio(.4, .5, .6), "cannot conclude"},
		{ratio(-.1, .5, 1.1), ratio(.4, .5, .6), "cannot conclude"},
	} {
		if got := r.agree(test.this, test.other, r.Result); got != test.says {
			t.Errorf("%v beside %v: %q, want %q", test.this.Ratio, test.other.Ratio, got, test.says)
		}
	}
}

// TestOtherWork: answers are not compared with those of a run whose requests came in another way, were
// answered by another program, or took more CPU time.
func TestOtherWork(t *testing.T) {
	r := Judge([]Run{newMaker(t).burst(9)})[0]
	a := r.Result.Config.Answers[0]
	for _, test := range []struct {
		says  string
		other func(*experiment.Result)
	}{
		{"agree", func(*experiment.Result) {}},
		{"not comparable: the experiment was another", func(o *experiment.Result) { o.Environment.Arrivals++ }},
		{"not comparable: the experiment was another", func(o *experiment.Result) {
			o.Environment.Programs = map[experiment.Program]string{experiment.Web: experiment.BuiltIn + ", in place of nginx"}
		}},
		{"not comparable: the service used ", func(o *experiment.Result) {
			o.Windows = slices.Clone(o.Windows)
			for i := range o.Windows {
				if w := &o.Windows[i]; w.Disturbed == "" {
					w.Figures = maps.Clone(w.Figures)
					w.Figures[experiment.Used] *= 1.2
				}
			}
		}},
	} {
		other := r.Result
		test.other(&other)
		if got := r.agree(r.compare(a), other.Compare(a), other); !strings.HasPrefix(got, test.says) {
			t.Errorf("%q, want %q", got, test.says)
		}
	}
}

// TestBeside reports a run beside the same on another day, one of a cluster with longer latencies,
// and one of another experiment with the same name.
func TestBeside(t *testing.T) {
	m := newMaker(t)
	r, day, place, another := m.burst(9), m.burst(9).Result, m.burst(9).Result, m.burst(9).Result
	day.Environment.Started = day.Environment.Started.AddDate(0, 0, 2)
	place.Environment.Place, place.Environment.Cgroup = experiment.Cluster, 1
	slow := Run{Result: place, Usage: &trace.Recording{Interval: time.Second}}
	slow.Result.Windows = nil
	for round := range 9 {
		for i, condition := range place.Config.Conditions {
			m.addWindow(&slow, round, condition.Name, "batches of 4", []float64{30, 100, 95}[i], 0)
		}
	}
	another.Config.Conditions[2].Services["web"] = json.RawMessage(`{"limit":1,"burst":0.5}`)
	r.Others = []experiment.Result{day, slow.Result, another}
	var text strings.Builder
	if err := Markdown(&text, []Run{r, m.cycles()}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"6 answers of other runs beside these: ",
		"; 2026-11-22 |", "; 2026-11-20, cluster, control groups of version 1 |",
		"| agree: ", "| differ: ", "| not comparable: the experiment was another |",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in:\n%.6000s", want, text.String())
		}
	}
	damaged := r
	damaged.Others = []experiment.Result{day}
	damaged.Others[0].Config.Rounds = -1
	if err := Markdown(&text, []Run{damaged}); err == nil || !strings.Contains(err.Error(), "another run of experiment") {
		t.Errorf("a damaged run beside it: error %v", err)
	}
	text.Reset()
	if err := Page(&text, []Run{r, m.cycles()}, ""); err != nil || strings.Count(text.String(), "not comparable: the experiment was another") != 1 {
		t.Errorf("%v: not in the page", err)
	}
}
