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

func TestConcludePredicted(t *testing.T) {
	for _, test := range []struct {
		more experiment.Value
		want string
	}{
		{value(-.02, .04, .1), agrees},
		{value(-.1, -.04, .02), agrees},
		{value(.01, .04, .07), differs},
		{value(-.07, -.04, -.01), differs},
		{value(-.3, .04, .38), tooFew}, // from nothing to twice as much
		{infinite(.04, 3), tooFew},
		{experiment.Value{}, tooFew},
	} {
		predicted := experiment.Prediction{Value: value(.4, .5, .6), More: test.more}
		if got := concludePredicted(predicted, value(.5, .54, .58)); got != test.want {
			t.Errorf("%+v: %q, want %q", test.more, got, test.want)
		}
	}
	rare := experiment.Prediction{Value: value(0, .001, .002), More: value(-.001, -.001, -.001)}
	if got := concludePredicted(rare, value(0, 0, .03)); got != tooFew {
		t.Errorf("measured in no round: %q", got)
	}
}
