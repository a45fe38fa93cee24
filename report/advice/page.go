package advice

import (
	"bytes"
	"fmt"
	"html/template"
	"io"
	"slices"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report/chart"
)

// openAtMost containers are shown unfolded.
const openAtMost = 3

// page is what the template shows.
type page struct {
	Style      template.CSS
	Goal       string
	Containers []section
	Summary    bool // a table of all, above
}

// section is one container on the page.
type section struct {
	ID, Title, Group string
	Verdict          string
	Open             bool
	Facts            [][2]string
	Rows             []row
	Drawings         []figure
	Densities        []density
	Wanted           string
	Limit            row // with the goal's burst
}

// figure is a chart with what there is to say about it.
type figure struct {
	SVG     template.HTML
	Keys    []key
	Caption string
}

// key is the name of a line, with the CSS class of its sample.
type key struct{ Name, Class string }

// density is a row of the node's table.
type density struct{ What, Containers, Load, InTime, WCET, Throttled string }

// HTML writes the page. Nothing is written when something cannot be drawn.
func (r *Report) HTML(w io.Writer) error {
	style, err := files.ReadFile("page.css")
	if err != nil {
		return err
	}
	p := page{Style: template.CSS(chart.CSS() + string(style)), Goal: r.goalText(), Summary: len(r.Containers) > 1} //nolint:gosec // files of ours
	for i := range r.Containers {
		s, err := r.section(i)
		if err != nil {
			return fmt.Errorf("draw %s: %w", r.Containers[i].title(), err)
		}
		p.Containers = append(p.Containers, s)
	}
	tmpl, err := pageTemplate()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := tmpl.Execute(&b, p); err != nil {
		return fmt.Errorf("make the page: %w", err)
	}
	if _, err := w.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func (r *Report) goalText() string {
	text := fmt.Sprintf("At most %s of the periods throttled", quantity.Share(r.Goal.ThrottleRatio))
	if r.Goal.Burst > 0 {
		text += fmt.Sprintf(", with a burst of %s of the quota", quantity.Share(r.Goal.Burst))
	}
	if slices.ContainsFunc(r.Containers, func(c Container) bool { return c.Node != nil }) {
		text += fmt.Sprintf("; on a node, all that is wanted in a period done in it with probability %s", quantity.Share(r.Goal.ProbabilityWCET1))
	}
	return text + "."
}

func (r *Report) section(i int) (section, error) {
	c := &r.Containers[i]
	s := section{ID: fmt.Sprintf("container-%d", i+1), Title: c.title(), Group: c.heading(), Open: len(r.Containers) <= openAtMost,
		Facts: c.facts(), Rows: c.rows(r.Goal), Verdict: c.verdict(r.Goal), Wanted: wanted(&c.Recorded),
		Limit: limitRow("", &c.LimitWithBurst, c.Recorded.LimitCPUs)}
	for _, d := range []struct {
		chart   *chart.Chart
		caption string
	}{{c.timescaleChart(), scalesCaption}, {c.throttleChart(r.Goal.ThrottleRatio), c.throttleCaption()}} {
		f, ok, err := drawing(d.chart, d.caption)
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

// throttleCaption says what the curves are, and what is missing.
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

// estimate prints a figure with its standard error.
func estimate(e interference.Estimate, unit float64, suffix string) string {
	if e.StandardError == 0 {
		return quantity.Number(unit*e.Value, 4) + suffix
	}
	return fmt.Sprintf("%.4g%s ± %.1g", unit*e.Value, suffix, unit*e.StandardError)
}
