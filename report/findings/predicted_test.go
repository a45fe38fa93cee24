package findings

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/trace"
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
		r.Result.Windows = append(r.Result.Windows, experiment.Window{Round: round, Condition: "alone", From: time.Duration(333*round) * interval, To: time.Duration(333*round+333) * interval, Figures: map[experiment.Figure]float64{}})
		r.Result.Windows = append(r.Result.Windows, experiment.Window{Round: round, Condition: "quota", To: time.Second,
			Figures: map[experiment.Figure]float64{experiment.Throttled: .4 + .02*float64(round)}})
	}
	r = Judge([]Run{r})[0]
	// Theory: 46.7%. The interval of the rounds is 41 to 49%.
	claim := r.claims()[0]
	if c := claim.Conclusion.String(); !strings.HasSuffix(claim.Published, "%), predicted") || !regexp.MustCompile(`^Agrees: the interval of the difference, [0-9.]+ points below to [0-9.]+ points above what is predicted, contains 0\.$`).MatchString(c) {
		t.Errorf("%+v", claim)
	}
	for i := range r.Result.Windows {
		r.Result.Windows[i].Figures[experiment.Throttled] /= 4
	}
	r.compared = nil
	r = Judge([]Run{r})[0]
	claim = r.claims()[0]
	if c := claim.Conclusion.String(); !strings.Contains(c, "lower than predicted (95% interval") {
		t.Errorf("%+v", claim)
	}
	r.Usage, r.compared = nil, nil
	claim = Judge([]Run{r})[0].claims()[0]
	if c := claim.Conclusion.String(); claim.Published != "not predicted" || c != "Cannot conclude: the recording of the usage is missing." {
		t.Errorf("%+v", claim)
	}
}
