package sweep

import (
	"fmt"
	"slices"

	"pinfold.dev/pinfold/report/chart"
)

// chart draws one measure of one distribution.
func (s *Sweep) chart(d Distribution, m measure) *chart.Chart {
	lines := s.lines(d.Name)
	c := &chart.Chart{
		Title:       m.title + ": " + d.Label,
		Subtitle:    s.subtitle(lines),
		Description: fmt.Sprintf("%s: %s, over the average demand, a line for each number of containers and each burst.", m.title, m.about),
		X:           chart.Axis{Label: "Average demand of a container", Unit: "% of its quota", Least: 0, Most: 100},
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
				Colour: chart.Colour(nth % MostCgroups),
				Marker: chart.Circle + chart.Marker(nth%3),
				Dash:   chart.Dash(slices.Index(bursts, l.burst) % MostBursts),
			},
		})
	}
	return c
}

// points ends bars where values end.
func (m *measure) points(l line) []chart.Point {
	var points []chart.Point
	for _, p := range l.points {
		e := m.estimate(p.Result)
		points = append(points, chart.Point{
			X: 100 * p.Mean, Y: e.Value, Uncertain: p.uncertain(),
			Lower: max(e.Value-errorsOfBars*e.StandardError, m.axis.Least),
			Upper: min(e.Value+errorsOfBars*e.StandardError, m.axis.Most),
		})
	}
	return points
}

// subtitle explains the letters and the points.
func (s *Sweep) subtitle(lines []line) string {
	text := "m containers, burst b × quota, " + s.Rule.String() + " rule"
	for _, l := range lines {
		if slices.ContainsFunc(l.points, func(p Point) bool { return p.uncertain() }) {
			return text + "; hollow: not certain, needs more periods"
		}
	}
	return text
}
