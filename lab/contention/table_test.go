package contention

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"pinfold.dev/pinfold/test/must"
)

// TestScore: the culprit of the samples is right if it is the first of the trace, too, or almost. Where
// others hardly matter, to name a culprit is wrong.
func TestScore(t *testing.T) {
	waits := func(others float64, behind map[string]float64) Waits { return Waits{Others: others, Behind: behind} }
	for name, test := range map[string]struct {
		traced, sampled Waits
		culprit, right  bool
	}{
		"same":    {waits(.5, map[string]float64{"a": .3, "b": .2}), waits(.48, map[string]float64{"a": .29, "b": .19}), true, true},
		"other":   {waits(.5, map[string]float64{"a": .3, "b": .2}), waits(.5, map[string]float64{"a": .2, "b": .3}), true, false},
		"alike":   {waits(.5, map[string]float64{"a": .26, "b": .24}), waits(.5, map[string]float64{"a": .24, "b": .26}), true, true},
		"nobody":  {waits(.01, map[string]float64{"a": .01}), waits(.015, map[string]float64{"b": .015}), false, false},
		"unfound": {waits(.03, map[string]float64{"a": .03}), waits(.01, map[string]float64{"a": .01}), true, false},
		"wrong":   {waits(.01, map[string]float64{"a": .01}), waits(.03, map[string]float64{"a": .03}), true, false},
	} {
		c := Case{Traced: test.traced, Sampled: test.sampled}
		if s := c.Score(); s.Culprit != test.culprit || s.Right != test.right {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

// TestUnion: time in which several threads wait counts once.
func TestUnion(t *testing.T) {
	const ms = time.Millisecond
	if got := union([]span{{10 * ms, 20 * ms}, {0, 5 * ms}, {12 * ms, 15 * ms}, {18 * ms, 30 * ms}}); got != 25*ms {
		t.Errorf("%v, want 25ms", got)
	}
}

// TestPlans: a number always gives the same case, and each kind comes equally often.
func TestPlans(t *testing.T) {
	kinds := map[Kind]int{}
	for number := range 200 {
		p := newPlan(number)
		kinds[p.kind]++
		if len(p.programs) == 0 {
			t.Errorf("case %d has no victim", number)
		}
		if again := newPlan(number); len(again.programs) != len(p.programs) || strings.Join(again.programs[0].args, " ") != strings.Join(p.programs[0].args, " ") {
			t.Errorf("case %d is another one the second time", number)
		}
	}
	for _, kind := range Kinds() {
		if n := kinds[kind]; n < 200/len(Kinds()) || n > 200/len(Kinds())+1 {
			t.Errorf("%d cases of kind %q", n, kind)
		}
	}
}

func TestMarkdown(t *testing.T) {
	r := Results{Command: []string{"pinfold-lab", "contention"}, Cases: []Case{
		{Kind: Throttled, Pressure: -1, Throttled: .5},
		{Kind: Both, Pressure: .9, Throttled: .3, Traced: Waits{Others: .4, Behind: map[string]float64{"a": .4}}, Sampled: Waits{Others: .38, Behind: map[string]float64{"a": .38}}},
	}}
	var out strings.Builder
	must.Do(t, r.Markdown(&out))
	for _, want := range []string{"| throttled only | 1 | 0.00% | +0.00% | 0.00% | 0.00% | 50.00% | – | 0 of 0 |", "| both | 1 | 40.00% | -2.00% | 2.00% | 0.00% | 30.00% | 90.00% | 1 of 1 |", "| all | 2 |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestDocument: docs/contention.md has the table of the cases in docs/results.
func TestDocument(t *testing.T) {
	var r Results
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile("../../docs/results/contention/contention.json"))(t), &r))
	var out strings.Builder
	must.Do(t, r.Markdown(&out))
	_, table, _ := strings.Cut(out.String(), "\n\n")
	if shown := string(must.Get(os.ReadFile("../../docs/contention.md"))(t)); !strings.Contains(shown, strings.TrimSpace(table)) {
		t.Errorf("docs/contention.md does not show\n%s", table)
	}
}
