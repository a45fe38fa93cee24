package interference

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
)

const (
	publishedPeriods = 1e6
	ourPeriods       = 1e6
	// The tables round to four digits after the point, percentages to two.
	roundingError = 1e-4 / 3.4641
)

// TestPublished compares every cell of testdata/published.txt under the published rule. Both sides
// are Monte Carlo estimates; the standard errors of the published ones are assumed to be ours for
// as many periods. With m = 20 and u <= 0.7, the strict rule must agree as well.
func TestPublished(t *testing.T) {
	need.This(t, "a long time")
	race.SkipLong(t)
	worst := 0.0
	for _, row := range publishedRows(t) {
		for i, burst := range []float64{1, 2, math.Inf(1)} {
			for _, rule := range []Rule{Published, Strict} {
				if rule == Strict && (row.m < 20 || row.u > 0.7) {
					continue
				}
				name := fmt.Sprintf("%s/m=%d/u=%v/b=%v/%v", row.name, row.m, row.u, burst, rule)
				t.Run(name, func(t *testing.T) {
					r := simulate(t, Config{Rule: rule, Periods: ourPeriods,
						Groups: []Group{{Count: row.m, Quota: 1, Burst: burst, Demand: row.demand}}})
					z1 := deviation(t, "E[WCET]", r.ExpectedWCET, row.cells[2*i])
					z2 := deviation(t, "P(WCET = 1)", r.ProbabilityWCET1, 1-row.cells[2*i+1]/100)
					worst = max(worst, math.Abs(z1), math.Abs(z2))
				})
			}
		}
	}
	t.Logf("the largest deviation is %.2f standard errors", worst)
}

// TestRulesDiffer simulates the same draws under both rules. They differ much with few groups under
// high load, and a little with 20 groups.
func TestRulesDiffer(t *testing.T) {
	race.SkipLong(t)
	for _, c := range []struct {
		m                 int
		u                 float64
		published, strict float64 // P(WCET > 1)
	}{
		{5, 0.9, 0.2118, 0.4522},
		{20, 0.9, 0.1407, 0.1426},
	} {
		got := map[Rule]float64{}
		for _, rule := range []Rule{Published, Strict} {
			r := simulate(t, Config{Rule: rule, Periods: ourPeriods, Groups: []Group{{
				Count: c.m, Quota: 1, Burst: 1, Demand: demand.Independent{Distribution: exponential(t, c.u)}}}})
			got[rule] = 1 - r.ProbabilityWCET1.Value
			deviation(t, fmt.Sprintf("P(WCET = 1), m = %d, %v,", c.m, rule), r.ProbabilityWCET1, 1-map[Rule]float64{Published: c.published, Strict: c.strict}[rule])
		}
		if got[Published] >= got[Strict] {
			t.Errorf("m = %d, u = %v: the published rule hides no miss", c.m, c.u)
		}
	}
}

func deviation(t *testing.T, what string, got Estimate, want float64) float64 {
	t.Helper()
	e := math.Sqrt(got.StandardError*got.StandardError*(1+ourPeriods/publishedPeriods) + roundingError*roundingError)
	z := (got.Value - want) / e
	t.Logf("%s %.5f (standard error %.2g), published %.4f: %.2f standard errors of the difference", what, got.Value, got.StandardError, want, z)
	if math.Abs(z) > 4 {
		t.Errorf("%s is %.5f, published is %.4f, %.1f standard errors away", what, got.Value, want, z)
	}
	return z
}

type publishedRow struct {
	name   string
	m      int
	u      float64
	demand demand.Process
	cells  [6]float64
}

func publishedRows(t *testing.T) []publishedRow {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/published.txt"))(t)
	var rows []publishedRow
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		var r publishedRow
		c := &r.cells
		if _, err := fmt.Sscan(lines.Text(), &r.name, &r.m, &r.u, &c[0], &c[1], &c[2], &c[3], &c[4], &c[5]); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		d := exponential(t, r.u)
		if r.name == "pareto" {
			d = pareto(t, 4, r.u)
		}
		r.demand = demand.Independent{Distribution: d}
		rows = append(rows, r)
	}
	if len(rows) != 12 {
		t.Fatalf("%d rows, want 12", len(rows))
	}
	return rows
}

// simulate runs a configuration with a fixed seed on two workers.
func simulate(t *testing.T, c Config) *Result {
	t.Helper()
	c.Random, c.Workers = streams(7), 2
	return must.Get(Simulate(t.Context(), c))(t)
}
