package sweep

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/report/chart"
)

// measure is a figure of a simulation that has a chart.
type measure struct {
	name   string // in file names
	title  string
	about  string
	unit   float64 // values are displayed in multiples of it
	places int     // maximum number of decimal places in tables
	of     func(*interference.Result) interference.Estimate
	axis   chart.Axis
}

func measures() []measure {
	return []measure{
		{
			name: "expected-wcet", title: "E[WCET]", about: "periods until the machine has done what quotas and bursts let through in one, on average; further down is longer", unit: 1, places: 5,
			of:   func(r *interference.Result) interference.Estimate { return r.ExpectedWCET },
			axis: chart.Axis{Label: "E[WCET]", Unit: "periods", Inverted: true, Min: 1, Max: math.MaxInt32},
		},
		{
			name: "probability-wcet1", title: "P(WCET = 1)", about: "share of the periods in which the machine does in time what quotas and bursts let through", unit: 0.01, places: 4,
			of: func(r *interference.Result) interference.Estimate { return r.ProbabilityWCET1 },
			axis: chart.Axis{Label: "P(WCET = 1)", Unit: "%", Scale: chart.Logarithmic, Inverted: true, Min: 1e-9, Max: 100,
				Format: func(late float64) string { return strconv.FormatFloat(100-late, 'f', -1, 64) }},
		},
	}
}

// estimate returns the figure of a result in the unit of the chart.
func (m *measure) estimate(r *interference.Result) interference.Estimate {
	e := m.of(r)
	return interference.Estimate{Value: e.Value / m.unit, StandardError: e.StandardError / m.unit}
}

// chart returns the chart of one measure of one distribution.
func (s *Sweep) chart(d Distribution, m measure) *chart.Chart {
	lines := s.lines(d.Name)
	c := &chart.Chart{
		Title:       m.title + ": " + d.Label,
		Subtitle:    s.subtitle(lines),
		Description: fmt.Sprintf("%s: %s, over the average demand, a line for each number of containers and each burst.", m.title, m.about),
		X:           chart.Axis{Label: "Average demand of a container", Unit: "% of its quota", Min: 0, Max: 100},
		Y:           m.axis,
		References:  []chart.Reference{{Value: 100 * RuleOfThumb, Vertical: true, Label: fmt.Sprintf("rule of thumb: %g%%", 100*RuleOfThumb)}},
	}
	cgroups, bursts := distinct(lines, cgroupsOf), distinct(lines, burstOf)
	for _, l := range lines {
		nth := slices.Index(cgroups, l.cgroups)
		c.Series = append(c.Series, chart.Series{
			Name:   fmt.Sprintf("m = %d, b = %s", l.cgroups, burstText(l.burst)),
			Points: m.points(l),
			Error:  chart.Bars,
			Style: chart.Style{
				Colour: chart.Colour(nth % MaxCgroups),
				Marker: chart.Circle + chart.Marker(nth%3),
				Dash:   chart.Dash(slices.Index(bursts, l.burst) % MaxBursts),
			},
		})
	}
	return c
}

// points returns a line's points. Error bars end at the bounds of the measure. Of a probability, the
// share of late periods is drawn, on a logarithmic axis. It is at least that of three periods: if none was late, up
// to three may be (rule of three).
func (m *measure) points(l line) []chart.Point {
	var points []chart.Point
	for _, p := range l.points {
		e := m.estimate(p.Result)
		point := chart.Point{X: 100 * p.Mean, Y: e.Value, Uncertain: p.uncertain()}
		least := m.axis.Min
		if m.axis.Scale == chart.Logarithmic {
			least = 300 / float64(p.Result.Periods)
			point.Y = max(100-e.Value, least)
		}
		point.Lower = max(point.Y-errorsOfBars*e.StandardError, min(point.Y, least))
		point.Upper = min(point.Y+errorsOfBars*e.StandardError, m.axis.Max)
		points = append(points, point)
	}
	return points
}

// subtitle explains the symbols.
func (s *Sweep) subtitle(lines []line) string {
	text := "m containers, burst b × quota, " + s.Rule.String() + " rule"
	for _, l := range lines {
		if slices.ContainsFunc(l.points, func(p Point) bool { return p.uncertain() }) {
			return text + "; hollow: not certain, needs more periods"
		}
	}
	return text
}
