package findings

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"pinfold.dev/pinfold/lab/experiment"
)

// table is a table of a report, in all formats. The first column has the names of groups of rows.
type table struct {
	Load   string // "" if there is only one
	Heads  []string
	Groups []group
}

type group struct {
	Name string
	Rows [][]string
}

// flat returns the rows with the names of their groups.
func (t table) flat() (rows [][]string) {
	for _, g := range t.Groups {
		for _, cells := range g.Rows {
			rows = append(rows, append([]string{g.Name}, cells...))
		}
	}
	return rows
}

// interval95 is the head of a column with the intervals of the column before it.
const interval95 = "95% interval"

// tables returns a table of all figures for each load under which something was measured, and why
// conditions cannot be compared.
func (r Run) tables() (all []table, notes []string) {
	for _, load := range r.Result.Config.LoadNames() {
		t := table{Heads: []string{"figure", "condition", "measured", interval95, "change", interval95, "p"}}
		if len(r.Result.Config.Loads) > 1 {
			t.Load = plain(load)
		}
		for _, f := range r.Result.Config.Figures {
			g := group{Name: label(f)}
			for _, condition := range r.Result.Config.Conditions {
				c := r.compare(experiment.Answer{Figure: f, Condition: condition.Name, Load: load})
				if c.Value.Rounds == 0 {
					continue
				}
				g.Rows = append(g.Rows, r.row(f, c))
				note := fmt.Sprintf("%s cannot be compared with %s%s: %s.", plain(c.Condition), plain(c.Baseline), r.load(load), plain(c.Unlike))
				if c.Unlike != "" && !slices.Contains(notes, note) {
					notes = append(notes, note)
				}
			}
			if len(g.Rows) > 0 {
				t.Groups = append(t.Groups, g)
			}
		}
		if len(t.Groups) > 0 {
			all = append(all, t)
		}
	}
	return all, notes
}

// row returns the cells of a figure in a condition.
func (r Run) row(f experiment.Figure, c experiment.Comparison) []string {
	cells := []string{plain(c.Condition), measured(f, c.Value), interval(f, c.Value)}
	change, spread, p := r.effect(c), spread(c), probability(c.P)
	switch {
	case c.Condition == c.Baseline:
		change, spread, p = "baseline", "", ""
	case change == incomparable:
		p = ""
	case change == inconclusive && spread == "":
		spread = missing(c)
	}
	return append(cells, change, spread, p)
}

// probability formats the result of a test of difference, "" if there was none.
func probability(p float64) string {
	switch {
	case math.IsNaN(p):
		return ""
	case p < 0.001:
		return "< 0.001"
	}
	return strconv.FormatFloat(p, 'f', 3, 64)
}

// missing returns why a change has no interval.
func missing(c experiment.Comparison) string {
	switch {
	case c.Missing > 0:
		return ""
	case c.Base.Rounds == 0:
		return "no value of the baseline"
	case c.Ratio.Rounds > 0 && c.Ratio.Bounded():
		return change(c.Ratio.Estimate)
	case c.Ratio.Rounds > 0 || math.IsNaN(c.P) && c.LowerIn+c.HigherIn > 0:
		return "too few rounds"
	}
	return byRound(c)
}
