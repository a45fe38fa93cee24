package findings

import (
	"fmt"
	"math"
	"strconv"

	"pinfold.dev/pinfold/core/experiment"
)

// figureTable has all figures under a load.
type figureTable struct {
	Load    string // "" if there is only one
	Figures []figureRows
}

// figureRows is a figure in each condition.
type figureRows struct {
	Label string
	Rows  []figureRow
}

type figureRow struct {
	Condition, Median, Interval, Change, ChangeInterval, P string
	Note                                                   string // why the condition cannot be compared, "" if it can
}

// tables returns a table of all figures for each load under which something was measured.
func (r Run) tables() []figureTable {
	var all []figureTable
	for _, load := range r.loads() {
		t := figureTable{}
		if len(r.Result.Config.Loads) > 1 {
			t.Load = plain(load)
		}
		for _, f := range r.Result.Config.Figures {
			if rows := r.rows(f, load); len(rows) > 0 {
				t.Figures = append(t.Figures, figureRows{label(f), rows})
			}
		}
		if len(t.Figures) > 0 {
			all = append(all, t)
		}
	}
	return all
}

// loads returns the names of the loads, or "" without one.
func (r Run) loads() []string {
	var names []string
	for _, l := range r.Result.Config.Loads {
		names = append(names, l.Name)
	}
	if names == nil {
		return []string{""}
	}
	return names
}

// rows returns the conditions in which a figure has a value.
func (r Run) rows(f experiment.Figure, load string) []figureRow {
	var all []figureRow
	for _, condition := range r.Result.Config.Conditions {
		c := r.Result.Compare(experiment.Answer{Figure: f, Condition: condition.Name, Load: load})
		if c.Value.Rounds > 0 {
			row := newRow(f, c)
			if c.Unlike != "" {
				row.Note = fmt.Sprintf("%s cannot be compared with %s%s: %s.", plain(c.Condition), plain(c.Baseline), r.load(load), plain(c.Unlike))
			}
			all = append(all, row)
		}
	}
	return all
}

func newRow(f experiment.Figure, c experiment.Comparison) figureRow {
	row := figureRow{Condition: plain(c.Condition), Median: f.Format(c.Value.Estimate), Interval: interval(f, c.Value),
		Change: effect(c), ChangeInterval: spread(c), P: probability(c.P)}
	switch {
	case c.Condition == c.Baseline:
		row.Change, row.ChangeInterval, row.P = "baseline", "", ""
	case row.Change == incomparable:
		row.P = ""
	case row.Change == inconclusive && row.ChangeInterval == "":
		row.ChangeInterval = missing(c)
	}
	return row
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
	case c.Base.Rounds == 0:
		return "no value of the baseline"
	case c.Ratio.Rounds > 0 && c.Ratio.Bounded():
		return change(c.Ratio.Estimate)
	case c.Ratio.Rounds > 0 || !c.Value.Bounded() || !c.Base.Bounded():
		return "too few rounds"
	}
	return "the intervals overlap"
}
