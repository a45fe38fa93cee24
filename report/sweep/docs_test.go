package sweep

import (
	"bytes"
	"encoding/csv"
	"os"
	"strconv"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

const docs = "../../docs/charts/"

// TestDocs: the charts in docs/charts are drawn from the numbers beside them. cmd/pinfold tests the
// numbers.
func TestDocs(t *testing.T) {
	text := must.Get(os.ReadFile(docs + "sweep.csv"))(t)
	s := parse(t, string(text))
	s.Distributions = []Distribution{{"exponential", "Exponential demand"}, {"pareto", "Pareto demand (shape 4)"}}
	var again bytes.Buffer
	if err := s.CSV(&again); err != nil || again.String() != string(text) {
		t.Fatalf("the numbers were not read as they are (%v)", err)
	}
	drawn := 0
	for _, f := range files(t, s) {
		if !strings.HasSuffix(f.Name, ".svg") {
			continue
		}
		drawn++
		golden.Compare(t, docs+f.Name, string(f.Content))
		if len(f.Content) > 60_000 {
			t.Errorf("%s has %d bytes", f.Name, len(f.Content))
		}
	}
	if drawn != 4 {
		t.Errorf("%d charts, want 4", drawn)
	}
}

// parse parses the output of CSV.
func parse(t *testing.T, text string) *Sweep {
	t.Helper()
	rows := must.Get(csv.NewReader(strings.NewReader(text)).ReadAll())(t)
	s := &Sweep{}
	for _, row := range rows[1:] {
		number := func(i int) float64 {
			x, err := strconv.ParseFloat(row[i], 64)
			if err != nil {
				t.Fatalf("%s: %v", rows[0][i], err)
			}
			return x
		}
		s.Rule = must.Get(interference.ParseRule(row[4]))(t)
		s.Seed = uint64(number(5))
		estimate := func(i int) interference.Estimate {
			return interference.Estimate{Value: number(i), StandardError: number(i + 1)}
		}
		r := &interference.Result{Rule: s.Rule, Periods: int64(number(6)), ExpectedWCET: estimate(7), ProbabilityWCET1: estimate(9),
			Groups: []interference.GroupResult{{ThrottleRatio: estimate(11)}}}
		if row[13] != "" {
			r.Warnings = []string{row[13]}
		}
		s.Points = append(s.Points, Point{Distribution: row[0], Mean: number(1), Cgroups: int(number(2)), Burst: number(3), Result: r})
	}
	return s
}
