package findings

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	hdr "github.com/HdrHistogram/hdrhistogram-go"

	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/report/chart"
)

// maxLines is the largest number of conditions in a chart, one for each colour.
const maxLines = 6

// latencies returns the charts of latency distributions, and remarks on histograms that are
// damaged.
func (r Run) latencies() (charts []*chart.Chart, remarks []string) {
	for _, load := range r.Result.Config.LoadNames() {
		lines, damaged := r.distributions(load)
		remarks = append(remarks, damaged...)
		for _, some := range shared(lines) {
			c := latencyChart(some, load, len(r.Result.Config.Loads) > 1)
			for _, l := range lines { // the same axis for all
				c.X.Shown = append(c.X.Shown, l.Points[0].X, l.Points[len(l.Points)-1].X)
			}
			charts = append(charts, c)
		}
	}
	return charts, remarks
}

// shared returns the lines of each chart: if they are too many for one, each has the first line and as many of the
// others as the rest.
func shared(lines []chart.Series) (all [][]chart.Series) {
	if len(lines) <= maxLines {
		return [][]chart.Series{lines}
	}
	others := lines[1:]
	charts := (len(others) + maxLines - 2) / (maxLines - 1)
	for some := range slices.Chunk(others, (len(others)+charts-1)/charts) {
		all = append(all, slices.Concat(lines[:1], some))
	}
	return all
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
			if err != nil {
				remarks = append(remarks, plain(fmt.Sprintf("The latencies of window %d were left out: %v.", n+1, err)))
				continue
			}
			all.Merge(h)
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
// scale from 1 to that of a single request, the latency that this share exceeds.
func tail(h *hdr.Histogram) []chart.Point {
	total := h.TotalCount()
	if total <= 0 {
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
		for left := float64(total-below) / float64(total); bar.Count > 0 && share*float64(total) >= 1 && left <= share; share *= step {
			add(share, bar.To)
		}
	}
	add(1/float64(total), h.Max())
	return points
}

func latencyChart(lines []chart.Series, load string, several bool) *chart.Chart {
	least := 1.
	for _, l := range lines {
		least = min(least, l.Points[len(l.Points)-1].Y)
	}
	c := &chart.Chart{
		Title:       "Latency of requests",
		Description: "The share of requests that were answered within a time, for each condition, on a scale that shows the slowest.",
		X:           chart.Axis{Label: "latency", Unit: "ms", Scale: chart.Logarithmic},
		Y:           chart.Axis{Label: "share of the requests", Scale: chart.Logarithmic, Inverted: true, Marks: []float64{1, .5}, Format: quantile},
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

// quantile formats a share of requests that are slower as the share of those that are not: "99.9%".
func quantile(slower float64) string {
	places := max(0, -2-int(math.Floor(math.Log10(slower)+1e-9)))
	return strconv.FormatFloat(100*(1-slower), 'f', places, 64) + "%"
}
