package advice

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report/chart"
)

// openAtMost is the number of containers up to which all are shown unfolded.
const openAtMost = 3

//go:embed page.html.tmpl
var pageTemplate string

//go:embed page.css
var pageCSS string

// page is the data of the template.
type page struct {
	Style      template.CSS
	Goal       string
	Containers []section
	Summary    bool // with a table of all containers
}

type section struct {
	ID, Title, Group string
	Verdict          string
	Open             bool
	Facts            [][2]string
	Rows             []row
	Drawings         []chart.Figure
	Densities        []density
	Wanted           string
	Limit            row // what to set
}

type density struct{ What, Containers, Load, InTime, WCET, Throttled string }

// HTML writes the page, or nothing if a chart cannot be drawn.
func (r *Report) HTML(w io.Writer) error {
	p := page{Style: chart.CSS(pageCSS), Goal: r.goalText(), Summary: len(r.Containers) > 1}
	for i := range r.Containers {
		s, err := r.section(i)
		if err != nil {
			return fmt.Errorf("draw %s: %w", r.Containers[i].title(), err)
		}
		p.Containers = append(p.Containers, s)
	}
	return chart.WritePage(w, pageTemplate, p)
}

func (r *Report) goalText() string {
	text := fmt.Sprintf("At most %s of the periods throttled", quantity.Share(r.Goal.ThrottleRatio))
	if r.Goal.Burst > 0 {
		text += fmt.Sprintf(", with a burst of %s of the quota", quantity.Share(r.Goal.Burst))
	}
	if slices.ContainsFunc(r.Containers, func(c Container) bool { return c.Node != nil }) {
		text += fmt.Sprintf("; on a node, what limits and bursts let through in a period done in it with probability %s", quantity.Share(r.Goal.ProbabilityWCET1))
	}
	return text + "."
}

func (r *Report) section(i int) (section, error) {
	c := &r.Containers[i]
	s := section{ID: fmt.Sprintf("container-%d", i+1), Title: c.title(), Group: c.heading(), Open: len(r.Containers) <= openAtMost,
		Facts: c.facts(), Rows: c.rows(r.Goal), Verdict: c.verdict(r.Goal), Wanted: wanted(&c.Recorded),
	}
	d, _ := c.Decide(r.Goal)
	s.Limit = c.decisionRow(d)
	for _, d := range []struct {
		chart   *chart.Chart
		caption string
	}{{c.timescaleChart(), scalesCaption}, {c.throttleChart(r.Goal.ThrottleRatio), c.throttleCaption()}} {
		f, ok, err := d.chart.Figure(d.caption)
		if err != nil {
			return s, err
		}
		if ok {
			s.Drawings = append(s.Drawings, f)
		}
	}
	if n := c.Node; n != nil && n.Enough {
		s.Densities = densities(n)
	}
	return s, nil
}

const scalesCaption = "A limit serves the container at a timescale when it is above the line there: " +
	"without burst at the enforcement period, with saved quota at longer windows. What was throttled while recording wanted more than is shown."

// throttleCaption explains the curves and says what is missing.
func (c *Container) throttleCaption() string {
	text := "As recorded: the periods in their order. In any order: the same periods, independent of each other, with proven bounds. " +
		"Where the first is far above the second, busy periods come in rows. The line as recorded ends where no period is throttled any more."
	if c.Curve.IndependentMissing != "" {
		text += " In any order is not known: " + c.Curve.IndependentMissing + "."
	}
	return text
}

func densities(n *advice.Node) []density {
	row := func(what string, d *advice.Density) density {
		return density{what, fmt.Sprint(d.Containers), quantity.Share(d.Load).String(), estimate(d.ProbabilityWCET1, 100, "%"),
			estimate(d.ExpectedWCET, 1, ""), estimate(d.ThrottleRatio, 100, "%")}
	}
	return []density{row("as the limits allow", &n.ByLimits), row("advised", &n.Fits)}
}

// estimate formats a figure with its standard error.
func estimate(e interference.Estimate, unit float64, suffix string) string {
	if e.StandardError == 0 {
		return quantity.Number(unit*e.Value, 4) + suffix
	}
	return fmt.Sprintf("%.4g%s ± %.1g", unit*e.Value, suffix, unit*e.StandardError)
}

// timescaleChart draws the CPU time used in windows of every length.
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

// limits returns the lines of the present and the recommended limits.
func (c *Container) limits() []chart.Reference {
	all := []chart.Reference{{Value: 0}} // the axis starts at 0
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

// maxStart is the highest share at which the axis of throttled periods starts.
const maxStart = .1

// throttleChart draws the share of throttled periods over the burst.
func (c *Container) throttleChart(wanted float64) *chart.Chart {
	// Shares below one period of the recording are unknown.
	least := min(maxStart, math.Pow(10, math.Floor(math.Log10(1/float64(max(1, c.Recorded.Periods))))))
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
		Y:           chart.Axis{Label: "throttled periods", Scale: chart.Logarithmic, Min: least, Max: 1, Format: func(share float64) string { return quantity.Share(share).String() }},
		Series:      []chart.Series{replay, independent},
		References: []chart.Reference{
			{Value: max(wanted, least), Label: "wanted " + quantity.Share(wanted).String()},
			{Value: 100, Vertical: true, Label: "the kernel's most"},
		},
	}
}
