package findings

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/experiment"
)

// TestPredicted checks a figure that is predicted from a recording, and one whose recording is
// missing.
func TestPredicted(t *testing.T) {
	const interval = trace.DefaultPeriod
	series := trace.Series{Group: "/alone/container"}
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 2000 {
		used := time.Duration(random.ExpFloat64() * 0.28 * float64(interval))
		series.Samples = append(series.Samples, trace.Sample{At: time.Duration(i+1) * interval, Interval: interval, Usage: used})
	}
	r := Run{Usage: &trace.Recording{Interval: interval, Series: []trace.Series{series}}}
	r.Result.Environment.CPUs = 2
	r.Result.Config.Services = []experiment.Service{{Name: "container", Program: experiment.Demand, Replicas: 5, Limit: experiment.Amount{Value: .2, Relative: true}}}
	r.Result.Config.Conditions = []experiment.Condition{{Name: "quota"}}
	r.Result.Config.Published = []experiment.Published{{Answer: experiment.Answer{Figure: experiment.Throttled, Condition: "quota"}, From: "alone"}}
	for round := range 6 {
		at := time.Duration(round) * 333 * interval
		r.Result.Windows = append(r.Result.Windows, experiment.Window{Round: round, Condition: "alone", From: at, To: at + 333*interval,
			Figures: map[experiment.Figure]float64{experiment.Used: .28}})
		r.Result.Windows = append(r.Result.Windows, experiment.Window{Round: round, Condition: "quota", To: time.Second,
			Figures: map[experiment.Figure]float64{experiment.Throttled: .4 + .02*float64(round)}})
	}
	// Theory: 46.7%. The interval of the rounds is 41 to 49%.
	check := func(published, verdict, note string) {
		t.Helper()
		results, notes := Prepare([]Run{r})[0].results()
		if cells := results.Groups[0].Rows[0]; !strings.Contains(cells[1], published) || cells[4] != verdict || strings.Join(notes, "") != note {
			t.Errorf("%q, %q", cells, notes)
		}
	}
	check("% (predicted, ", agrees, "")
	for i := range r.Result.Windows {
		r.Result.Windows[i].Figures[experiment.Throttled] /= 4
	}
	check("% (predicted, ", differs, "")
	r.Usage = nil
	check("not predicted", inconclusive, "throttled periods, quota: the recording of the usage is missing")
}

// TestConcludePredicted: the sides of the intervals that face each other count, and their squares add up.
func TestConcludePredicted(t *testing.T) {
	measured := value(.40, .50, .53)
	for _, test := range []struct {
		predicted experiment.Value
		want      string
	}{
		{value(.30, .36, .46), agrees}, // .14 apart, and the sides are .10 and .10
		{value(.30, .35, .45), differs},
		{value(.51, .55, .80), agrees}, // .05 apart, .03 and .04
		{value(.51, .56, .80), differs},
		{infinite(.36, 3), tooFew},
	} {
		if got := concludePredicted(test.predicted, measured); got != test.want {
			t.Errorf("%+v: %q, want %q", test.predicted, got, test.want)
		}
	}
	if got := concludePredicted(value(.3, .4, .5), infinite(.4, 3)); got != tooFew {
		t.Errorf("measured in few rounds: %q", got)
	}
}
