package findings

import (
	"fmt"
	"math"
	"slices"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/report/chart"
)

// maxLines is the number of conditions in a chart, one for each colour.
const maxLines = 6

// latencies returns the charts of latency distributions, and remarks on histograms that are
// damaged.
func (r Run) latencies() (charts []*chart.Chart, remarks []string) {
	for _, load := range r.loads() {
		lines, damaged := r.distributions(load)
		remarks = append(remarks, damaged...)
		charts = append(charts, latencyCharts(lines, load, len(r.Result.Config.Loads) > 1)...)
	}
	return charts, remarks
}

// latencyCharts returns one chart, or several with the same axes that all begin with the first line.
func latencyCharts(lines []chart.Series, load string, several bool) (charts []*chart.Chart) {
	if len(lines) <= maxLines {
		return []*chart.Chart{latencyChart(lines, lines, load, several)}
	}
	others := lines[1:]
	n := (len(others) + maxLines - 2) / (maxLines - 1)
	for some := range slices.Chunk(others, (len(others)+n-1)/n) {
		charts = append(charts, latencyChart(slices.Concat(lines[:1], some), lines, load, several))
	}
	return charts
}

// distributions returns a line for each condition of which there are latencies.
func (r Run) distributions(load string) (lines []chart.Series, remarks []string) {
	for i, c := range r.Result.Config.Conditions {
		all := experiment.NewHistogram()
		for n, w := range r.Result.Windows {
			if w.Condition != c.Name || w.Load != load || w.Disturbed != "" || len(w.Latencies) == 0 {
				continue
			}
			h, err := w.Histogram()
			if err == nil {
				all.Merge(h)
			} else {
				remarks = append(remarks, plain(fmt.Sprintf("The latencies of window %d were left out: %v.", n+1, err)))
			}
		}
		if points := tail(all); len(points) > 0 {
			lines = append(lines, chart.Series{Name: plain(c.Name), Points: points, Style: style(i)})
		}
	}
	return lines, remarks
}

// style returns the style of the nth condition in all charts.
func style(n int) chart.Style {
	return chart.Style{Colour: chart.Colour(n % maxLines), Dash: chart.Dash(n / maxLines % 4)}
}

// stepsPerDecade is the number of points of a curve from 90% to 99%, say.
const stepsPerDecade = 24

// tail returns the points of a distribution: for shares of requests, evenly spaced on a logarithmic
// scale from 1 to that of [experiment.MinBeyond] requests, the latency that this share exceeds.
func tail(h *hdr.Histogram) []chart.Point {
	total := h.TotalCount()
	if total <= experiment.MinBeyond {
		return nil
	}
	step := math.Pow(10, -1./stepsPerDecade)
	var points []chart.Point
	add := func(share float64, latency int64) {
		points = append(points, chart.Point{X: max(float64(latency), 1) / 1000, Y: share})
	}
	add(1, h.Min())
	below, share := int64(0), step
	for _, bar := range h.Distribution() {
		below += bar.Count
		for left := float64(total-below) / float64(total); bar.Count > 0 && share*float64(total) >= experiment.MinBeyond && left <= share; share *= step {
			add(share, bar.To)
		}
	}
	return points
}

// tradeoff returns a chart of the 99th percentile of latencies over the usage of the machine. It is
// empty if the experiment is not about that usage.
func (r Run) tradeoff() *chart.Chart {
	c := &chart.Chart{
		Title:       "p99 latency and usage of the machine",
		Description: "How slow the slowest requests are, over how much of the CPUs is used, for each condition.",
		X:           chart.Axis{Label: "usage of the machine", Unit: "% of the CPUs", Shown: []float64{0, 100}},
		Y:           chart.Axis{Label: "p99 latency", Unit: "ms", Scale: chart.Logarithmic},
		Height:      300,
	}
	if !slices.Contains(r.Result.Config.Figures, experiment.Machine) {
		return c
	}
	for i, condition := range r.Result.Config.Conditions {
		latency := r.compare(experiment.Answer{Figure: experiment.P99, Condition: condition.Name}).Value
		usage := r.compare(experiment.Answer{Figure: experiment.Machine, Condition: condition.Name}).Value
		if latency.Rounds == 0 || usage.Rounds == 0 || latency.Estimate <= 0 {
			continue
		}
		at := chart.Point{X: 100 * usage.Estimate, Y: latency.Estimate}
		one := chart.Series{Name: plain(condition.Name), Style: style(i)}
		one.Style.Marker = chart.Circle
		if latency.Bounded() && latency.Low > 0 {
			at.Lower, at.Upper, one.Error = latency.Low, latency.High, chart.Bars
		}
		one.Points = []chart.Point{at}
		c.Series = append(c.Series, one)
	}
	return c
}

// latencyChart returns a chart of some of the lines, with the axes of all.
func latencyChart(lines, all []chart.Series, load string, several bool) *chart.Chart {
	least, x, y := 1., []float64(nil), []float64(nil)
	for _, l := range all {
		first, last := l.Points[0], l.Points[len(l.Points)-1]
		least, x, y = min(least, last.Y), append(x, first.X, last.X), append(y, last.Y)
	}
	c := &chart.Chart{
		Title:       "Latency of requests",
		Description: "The share of requests that were answered within a time, for each condition, on a scale that shows the slowest.",
		X:           chart.Axis{Label: "latency", Unit: "ms", Scale: chart.Logarithmic, Shown: x},
		Y:           chart.Axis{Label: "share of the requests", Scale: chart.Logarithmic, Inverted: true, Shown: y, Marks: []float64{1, .5}, Format: chart.Complement},
		Series:      lines,
		Height:      380,
	}
	for mark := .1; mark >= least; mark /= 10 {
		c.Y.Marks = append(c.Y.Marks, mark)
	}
	if several {
		c.Title += ", load: " + plain(load)
	}
	return c
}
