package verdict

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// goal is the share of periods that may be throttled.
const goal = .01

// throttledBefore are the shares of periods that the limits throttle under which counters are read.
func throttledBefore() []float64 { return []float64{.02, .05, .1, .2, .4} }

// judged is a verdict on a recording under a limit, and what a replay under the advised limit says.
type judged struct {
	recorded *recorded
	before   float64 // the share of throttled periods
	limit    float64
	verdict  verdict.Verdict
	got      float64 // the share of throttled periods under the advised limit
	windows  []verdict.Window
}

func judge(all []recorded, window int) (cases []judged) {
	for i := range all {
		for _, before := range throttledBefore() {
			c := judged{recorded: &all[i], before: before, limit: all[i].limitFor(before)}
			_, c.windows = c.recorded.replayEvery(window, c.limit, 0)
			c.verdict = verdict.Of(c.windows, goal)
			if c.verdict.Advised > 0 {
				c.got, _ = c.recorded.replay(c.verdict.Advised, 1)
			}
			cases = append(cases, c)
		}
	}
	return cases
}

// TestJudge compares the verdicts on recordings with docs/results/fleet/table.md, and those on recordings that
// package verdict was not made with also with docs/advice.md.
func TestJudge(t *testing.T) {
	targets := map[string]float64{} // of the Vertical Pod Autoscaler, which test/autoscalers asks
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(vpa+"targets.json"))(t), &targets))
	var table, others strings.Builder
	known := recordings(t, fleet)
	fmt.Fprintf(&table, "%d recordings with which the models were made:\n\n", len(known))
	score(judge(known, window)).table(&table)
	all := recordings(t, unseen)
	cases, usage := judge(all, window), map[string][]float64{}
	for i := range cases {
		c := &cases[i]
		for _, w := range c.windows {
			usage[c.name()] = append(usage[c.name()], math.Round(1e6*w.Usage.Seconds()/w.Time.Seconds())/1e6)
		}
		t.Logf("%-18s %4.0f%% of %.3f: %-7s %.3f (%.3f to %.3f), throttles %.2f%%: %s", c.recorded.name, 100*c.before, c.limit, c.verdict.Action, c.verdict.Advised,
			c.verdict.Low, c.verdict.High, 100*c.got, c.verdict.Reason)
	}
	s := score(cases)
	s.table(&others)
	rulesTable(&others, cases, rules(targets))
	var hours []recorded
	for i := range all {
		hours = append(hours, all[i].repeated())
	}
	score(judge(hours, stepped)).table(&others)
	if len(all) < 30 || s.near < .9 || s.most > .05 || s.abstained > .3 {
		t.Errorf("%d recordings: %+v", len(all), s)
	}
	shown := string(must.Get(os.ReadFile("../../docs/advice.md"))(t))
	for _, part := range strings.Split(strings.TrimSpace(others.String()), "\n\n") {
		if !strings.Contains(shown, part) {
			t.Errorf("docs/advice.md does not show\n%s", part)
		}
	}
	fmt.Fprintf(&table, "%d others; the same with limits by other rules; and repeated for an hour, and read every 5 minutes:\n\n%s", len(all), others.String())
	golden.Compare(t, vpa+"usage.json", string(must.Get(json.Marshal(usage))(t))+"\n")
	golden.Compare(t, "../../docs/results/fleet/table.md", table.String())
}

// vpa is where the usage of recordings is for the Vertical Pod Autoscaler, and what it recommends.
const vpa = "../autoscalers/testdata/"

// name names a case.
func (c *judged) name() string { return fmt.Sprintf("%s/%g%%", c.recorded.name, 100*c.before) }

// scored says how often verdicts were right.
type scored struct {
	cases           int
	abstained, near float64 // shares of all cases, and of those with advice: at most 2 points from the prediction
	most            float64 // how far the worst is from it
}

func score(cases []judged) (s scored) {
	decided := 0.
	for i := range cases {
		c := &cases[i]
		s.cases++
		switch {
		case c.verdict.Action == verdict.Fine:
			continue
		case c.verdict.Advised == 0:
			s.abstained++
			continue
		}
		decided++
		off := math.Abs(c.got - *c.verdict.Predicted)
		if off <= .02 {
			s.near++
		}
		s.most = max(s.most, off)
	}
	s.abstained /= float64(s.cases)
	s.near /= max(1, decided)
	return s
}

// table prints what was right.
func (s scored) table(out *strings.Builder) {
	fmt.Fprintf(out, "| verdicts | no verdict | within 2 points of the prediction | largest error |\n|---|---|---|---|\n| %d | %.0f%% | %.0f%% | %.1f points |\n\n",
		s.cases, 100*s.abstained, 100*s.near, 100*s.most)
}

// rulesTable prints what other rules lead to where there is a verdict.
func rulesTable(out *strings.Builder, cases []judged, rules []rule) {
	fmt.Fprintf(out, "| rule | throttled, median | 90th percentile | largest | limit, multiple of the present one |\n|---|---|---|---|---|\n")
	for _, rule := range rules {
		var shares, limits []float64
		for i := range cases {
			c := &cases[i]
			if c.verdict.Advised == 0 {
				continue
			}
			limit, burst := rule.limit(c), rule.burst
			share := 1.
			if limit > 0 {
				share, _ = c.recorded.replay(limit, burst)
			}
			shares, limits = append(shares, share), append(limits, limit/c.limit)
		}
		slices.Sort(shares)
		slices.Sort(limits)
		at := func(all []float64, q float64) float64 { return all[min(len(all)-1, int(q*float64(len(all))))] }
		fmt.Fprintf(out, "| %s | %.1f%% | %.1f%% | %.1f%% | %.2f |\n", rule.name, 100*at(shares, .5), 100*at(shares, .9), 100*at(shares, 1), at(limits, .5))
	}
	fmt.Fprintln(out)
}

// rule is a way to choose a limit.
type rule struct {
	name  string
	burst float64
	limit func(*judged) float64
}

func rules(targets map[string]float64) []rule {
	return []rule{
		{"Pinfold, with burst", 1, func(c *judged) float64 { return c.verdict.Advised }},
		{"the present limit", 0, func(c *judged) float64 { return c.limit }},
		{"the present limit with burst", 1, func(c *judged) float64 { return c.limit }},
		{"VPA 1.8.1: its target as the limit", 0, func(c *judged) float64 { return targets[c.name()] }},
		{"krr `simple_limit`: 96th percentile", 0, func(c *judged) float64 { return quantile(c.windows, .96) }},
		{"the least that throttles 1%, known afterwards", 0, func(c *judged) float64 { return c.recorded.limitFor(goal) }},
	}
}

// quantile returns a quantile of the use in windows, in CPUs.
func quantile(windows []verdict.Window, q float64) float64 {
	var all []float64
	for i := range windows {
		all = append(all, windows[i].Usage.Seconds()/windows[i].Time.Seconds())
	}
	slices.Sort(all)
	return all[min(len(all)-1, int(q*float64(len(all))))]
}
