package advice

import (
	"errors"
	"fmt"
	"html/template"
	"math"
	"time"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report/chart"
)

// timescaleChart is the CPU time used in windows of every length.
func (c *Container) timescaleChart() *chart.Chart {
	largest := chart.Series{Name: "most in any window", Style: chart.Style{Colour: chart.Blue}}
	usual := chart.Series{Name: "99% of the windows", Style: chart.Style{Colour: chart.Sky, Dash: chart.Dashed}}
	for _, s := range c.Timescales {
		seconds := s.Window.Seconds()
		largest.Points = append(largest.Points, chart.Point{X: seconds, Y: s.Max})
		usual.Points = append(usual.Points, chart.Point{X: seconds, Y: s.P99})
	}
	return &chart.Chart{
		Title:       "CPUs used at every timescale",
		Description: fmt.Sprintf("The most CPUs that %s used in windows of every length, and the 99th percentile, beside its limits.", c.title()),
		X:           chart.Axis{Label: "length of the window", Scale: chart.Logarithmic, Format: timeLabel},
		Y:           chart.Axis{Label: "CPUs"},
		Series:      []chart.Series{largest, usual},
		References:  c.limits(),
	}
}

// limits are the lines to compare usage with.
func (c *Container) limits() []chart.Reference {
	all := []chart.Reference{{Value: 0}} // the axis begins there
	if now := c.Recorded.LimitCPUs; now > 0 {
		all = append(all, chart.Reference{Value: now, Label: "now " + quantity.CPUs(now).Amount()})
	}
	if l := &c.LimitWithoutBurst; l.Enough {
		all = append(all, chart.Reference{Value: l.LimitCPUs, Label: "advised " + quantity.CPUs(l.LimitCPUs).Amount()})
	}
	if l := &c.LimitWithBurst; l.Enough && l.BurstPercent > 0 {
		all = append(all, chart.Reference{Value: l.LimitCPUs, Label: "with burst " + quantity.CPUs(l.LimitCPUs).Amount()})
	}
	return all
}

func timeLabel(seconds float64) string {
	d := time.Duration(math.Round(seconds * float64(time.Second)))
	if d >= time.Second {
		return quantity.Number(d.Seconds(), 3) + " s"
	}
	return quantity.Number(1000*d.Seconds(), 3) + " ms"
}

// mostLeast is the largest share at which the axis of throttled periods begins.
const mostLeast = .1

// throttleChart is the share of throttled periods over the burst.
func (c *Container) throttleChart(wanted float64) *chart.Chart {
	// Below one period of the recording nothing is known.
	least := min(mostLeast, math.Pow(10, math.Floor(math.Log10(1/float64(max(1, c.Recorded.Periods))))))
	replay := chart.Series{Name: "as recorded", Style: chart.Style{Colour: chart.Blue, Marker: chart.Circle}}
	independent := chart.Series{Name: "in any order", Style: chart.Style{Colour: chart.Vermillion, Dash: chart.Dashed}, Error: chart.Band}
	drawn := func(share float64) float64 {
		if share < least {
			return math.NaN()
		}
		return share
	}
	for _, p := range c.Curve.Points {
		replay.Points = append(replay.Points, chart.Point{X: p.BurstPercent, Y: drawn(p.ThrottleRatio)})
		if i := p.Independent; i != nil {
			independent.Points = append(independent.Points,
				chart.Point{X: p.BurstPercent, Y: drawn(i.Probability), Lower: max(least, i.Lower), Upper: i.Upper})
		}
	}
	return &chart.Chart{
		Title:       fmt.Sprintf("Throttled periods with a limit of %s", quantity.CPUs(c.Curve.AtLimitCPUs)),
		Description: fmt.Sprintf("The share of the periods of %s that are throttled, over the burst.", c.title()),
		X:           chart.Axis{Label: "burst", Unit: "% of the quota"},
		Y:           chart.Axis{Label: "throttled periods", Scale: chart.Logarithmic, Least: least, Most: 1, Format: func(share float64) string { return quantity.Share(share).String() }},
		Series:      []chart.Series{replay, independent},
		References: []chart.Reference{
			{Value: max(wanted, least), Label: "wanted " + quantity.Share(wanted).String()},
			{Value: 100, Vertical: true, Label: "the kernel's most"},
		},
	}
}

// drawing returns a chart for a page, which names the lines below it, where they take no
// width from the chart; false when there is nothing to draw.
func drawing(c *chart.Chart, caption string) (figure, bool, error) {
	f := figure{Caption: caption}
	for i := range c.Series {
		if s := &c.Series[i]; len(s.Points) > 0 {
			f.Keys = append(f.Keys, key{s.Name, map[chart.Colour]string{chart.Blue: "blue", chart.Sky: "sky", chart.Vermillion: "vermillion"}[s.Style.Colour]})
			s.Name = ""
		}
	}
	svg, err := c.HTML()
	if errors.Is(err, chart.ErrEmpty) {
		return figure{}, false, nil
	}
	f.SVG = template.HTML(svg) //nolint:gosec // made by report/chart, which escapes what is not its own
	return f, err == nil, err
}
