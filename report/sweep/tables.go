package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"pinfold.dev/pinfold/core/interference"
)

// safeMet is P(WCET = 1) from which on the page calls a load safe.
const safeMet = 0.99

// head has the numbers of groups and the bursts of a table.
func head(lines []line) table {
	t := table{Cgroups: distinct(lines, cgroupsOf)}
	for _, b := range distinct(lines, burstOf) {
		t.Bursts = append(t.Bursts, burstText(b))
	}
	return t
}

// table has a row for each mean.
func (m *measure) table(lines []line) table {
	t := head(lines)
	t.Corner = "mean"
	var means []float64
	for _, l := range lines {
		for _, p := range l.points {
			means = append(means, p.Mean)
		}
	}
	slices.Sort(means)
	for _, mean := range slices.Compact(means) {
		r := row{Name: percent(mean)}
		for _, l := range lines {
			i := slices.IndexFunc(l.points, func(p Point) bool { return p.Mean == mean })
			if i < 0 {
				r.Cells = append(r.Cells, cell{})
				continue
			}
			r.Cells = append(r.Cells, m.cell(&l.points[i]))
		}
		t.Rows = append(t.Rows, r)
	}
	return t
}

// cell writes a figure to the second digit of its standard error, as far as a table has
// room; the CSV file has all digits.
func (m *measure) cell(p *Point) cell {
	e := m.estimate(p.Result)
	c := cell{Text: strconv.FormatFloat(e.Value, 'g', 6, 64), Uncertain: p.uncertain()}
	if e.StandardError == 0 {
		return c
	}
	places := min(max(1-int(math.Floor(math.Log10(e.StandardError))), 0), m.places)
	c.Text = strconv.FormatFloat(e.Value, 'f', places, 64)
	c.Error = "±" + strconv.FormatFloat(e.StandardError, 'f', places, 64)
	if least := math.Pow10(-places); e.StandardError < least/2 {
		c.Error = "±<" + strconv.FormatFloat(least, 'f', places, 64)
	}
	return c
}

// safe has one row: the highest mean up to which a period meets its deadline with the
// probability safeMet, two standard errors taken off.
func safe(lines []line) table {
	t := head(lines)
	r := row{Name: fmt.Sprintf("P(WCET = 1) ≥ %s up to", percent(safeMet))}
	for _, l := range lines {
		r.Cells = append(r.Cells, cell{Text: upTo(l)})
	}
	t.Rows = []row{r}
	return t
}

func upTo(l line) string {
	enough := func(e interference.Estimate) bool { return e.Value-errorsOfBars*e.StandardError >= safeMet }
	text := "below " + percent(l.points[0].Mean)
	for _, p := range l.points {
		if !enough(p.Result.ProbabilityWCET1) {
			break
		}
		text = percent(p.Mean)
	}
	return text
}
