package findings

import (
	"math"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/report/chart"
)

// samples returns samples of 50 ms that end at times, in milliseconds, with usage in CPUs.
func samples(at []int, cpus ...float64) []trace.Sample {
	const interval = 50 * time.Millisecond
	var all []trace.Sample
	for i, end := range at {
		all = append(all, trace.Sample{At: time.Duration(end) * time.Millisecond, Interval: interval,
			Usage: time.Duration(cpus[i] * float64(interval)), Limits: bandwidth.Limits{Quota: bandwidth.Unlimited}})
	}
	return all
}

// TestStairs: the usage of whole bins is drawn where it was, and a gap interrupts the line.
func TestStairs(t *testing.T) {
	sequences := [][]trace.Sample{
		samples([]int{1050, 1100, 1150, 1200, 1250}, 1, 2, 0, 0, 9),
		samples([]int{1450, 1500}, 3, 3),
	}
	got := stairs(sequences, 100*time.Millisecond, 50*time.Millisecond, time.Second)
	want := []chart.Point{{X: 0, Y: 1.5}, {X: .1, Y: 1.5}, {X: .1, Y: 0}, {X: .2, Y: 0}, {X: .2, Y: math.NaN()}, {X: .4, Y: 3}, {X: .5, Y: 3}}
	if diff := cmp.Diff(want, got, cmpopts.EquateNaNs(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
}

// TestThrottledPeriods: a period ends where it was counted, and adjacent periods are one range.
func TestThrottledPeriods(t *testing.T) {
	all := samples([]int{1050, 1100, 1200, 1600}, 0, 0, 0, 0)
	all[0].Throttled, all[1].Throttled, all[2].Throttled, all[3].Throttled = 1, 0, 1, 2
	all[3].Limits.Period = 50 * time.Millisecond
	got := throttled([][]trace.Sample{all[:2], all[2:]}, time.Second)
	want := []chart.Shade{{From: 0, To: .05, Colour: chart.Vermillion}, {From: .1, To: .2, Colour: chart.Vermillion}, {From: .5, To: .6, Colour: chart.Vermillion}}
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
		t.Error(diff)
	}
	all[2].At -= 50 * time.Millisecond
	if got = throttled([][]trace.Sample{all}, time.Second); len(got) != 2 || got[0].To != .15 {
		t.Errorf("adjacent periods: %v", got)
	}
}

// TestUsage: a condition is drawn from its first undisturbed window, for at most ten seconds, with
// its limit.
func TestUsage(t *testing.T) {
	r := newMaker(t).burst(2)
	w, ok := r.firstWindow("quota")
	if !ok || w.Disturbed != "" || w.Condition != "quota" {
		t.Fatalf("%+v", w)
	}
	w.To = w.From + time.Minute
	r.Result.Environment.CPUs = 4
	c := r.usageChart(w, r.Result.Config.Conditions[1])
	for i, points := range []int{200, 20} {
		if s := c.Series[i]; len(s.Points) != points || s.Points[0].X != 0 || math.Abs(s.Points[points-1].X-10) > .02 {
			t.Errorf("%s: %d points, from %v to %v", s.Name, len(s.Points), s.Points[0], s.Points[len(s.Points)-1])
		}
	}
	if len(c.References) != 1 || c.References[0].Value != 1 || c.Subtitle != "load: batches of 4; limit (dashed): 1 CPU" || len(c.Shades) == 0 {
		t.Errorf("%+v, %q, %d shades", c.References, c.Subtitle, len(c.Shades))
	}
	if c := r.usageChart(w, experiment.Condition{Name: "unlimited"}); len(c.References) > 0 {
		t.Error("a condition without a limit has one")
	}
}

// TestSameScale: windows of different length, with and without a limit above all usage, have the
// same axes.
func TestSameScale(t *testing.T) {
	r := newMaker(t).burst(2)
	for i := range r.Result.Windows {
		r.Result.Windows[i].To -= time.Duration(i%3) * 3 * time.Second
	}
	r.Result.Config.Conditions[2] = settings(t, "quota + burst", "quota", map[string]any{"limit": 7, "burst": 1})
	usage, remarks := r.usage()
	if len(usage.Charts) != 3 || len(remarks) > 0 {
		t.Fatalf("%d charts, %q", len(usage.Charts), remarks)
	}
	mark := regexp.MustCompile(`<text x="[0-9.]+" y="[-0-9.]+"[^>]*>[0-9.]+</text>`) // of an axis, with its place
	first := mark.FindAllString(string(usage.Charts[0]), -1)
	if len(first) < 4 {
		t.Fatalf("marks: %q", first)
	}
	for _, other := range usage.Charts[1:] {
		if diff := cmp.Diff(first, mark.FindAllString(string(other), -1)); diff != "" {
			t.Error(diff)
		}
	}
}
