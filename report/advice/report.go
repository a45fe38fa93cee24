// Package advice renders the recommendations of core/advice as text, as an HTML page, and as
// patches for Kubernetes.
//
// The text is a verdict and a few lines ([Container.short]). The verbose text and the page show all
// rows ([Container.rows]): the recommendation, its value, its confidence interval, and a sentence
// with the reason. Where there was not enough data, only the sentence is shown.
//
// The page has two charts per container. The first shows the CPU time used in windows of every
// length, together with the limits: where the largest usage is below a limit, that limit serves the
// container at that timescale. The second shows the share of throttled periods over the burst, both
// for the recorded order of periods and, with proven bounds, for random order. Its logarithmic axis
// starts at the power of ten below one period of the recording. The page is one file without
// scripts and loads nothing from the network.
//
// A patch is a strategic merge patch of a pod template. It sets the limit for the goal's burst on
// each container, and that burst as the pod's annotation. A recording contains pods but not the
// objects that own them, so comments in the patch explain how to find the owner and apply the
// patch.
package advice

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
)

// Report is the advice for any number of containers.
type Report struct {
	Goal       advice.Goal
	Seed       uint64 // of the random numbers
	Containers []Container
}

// Container is the advice for one container, or any other group.
type Container struct {
	File string // of the recording
	advice.Container
	Node *advice.Node // nil if not requested
	Twin bool         // another container of the report has the same name, as after a restart
}

// reportJSON is a report as JSON.
type reportJSON struct {
	Goal       goalJSON        `json:"goal"`
	Seed       uint64          `json:"seed"`
	Containers []containerJSON `json:"containers"`
}

type goalJSON struct {
	ThrottleRatio    float64 `json:"throttleRatio"`
	BurstPercent     float64 `json:"burstPercent"`
	ProbabilityWCET1 float64 `json:"probabilityWCET1"`
}

// containerJSON has the fields of an [advice.Container]. Those without enough data are their finding.
type containerJSON struct {
	File              string          `json:"file"`
	Group             string          `json:"group"`
	Name              string          `json:"name,omitempty"`
	Recorded          advice.Recorded `json:"recorded"`
	Warnings          []string        `json:"warnings,omitempty"`
	LimitWithoutBurst any             `json:"limitWithoutBurst"`
	LimitWithBurst    any             `json:"limitWithBurst"`
	Burst             any             `json:"burst"`
	Period            any             `json:"period"`
	Binding           any             `json:"binding"`
	Parallelism       any             `json:"parallelism"`
	ScaleOut          any             `json:"scaleOut"`
	Curve             any             `json:"throttleCurve"`
	Verdict           string          `json:"verdict"`
	Decision          any             `json:"decision,omitempty"`
	Timescales        []trace.Scale   `json:"timescales"`
	Node              any             `json:"node,omitempty"`
}

// known returns what was found, or only the finding if there was not enough data.
func known(f advice.Finding, found any) any {
	if !f.Enough {
		return f
	}
	return found
}

// JSON returns a value to encode as JSON. Times are in seconds.
func (r *Report) JSON() any {
	out := reportJSON{Goal: goalJSON{r.Goal.ThrottleRatio, 100 * r.Goal.Burst, r.Goal.ProbabilityWCET1}, Seed: r.Seed}
	for _, c := range r.Containers {
		one := containerJSON{c.File, c.Group, c.Name, c.Recorded, c.warnings(), known(c.LimitWithoutBurst.Finding, c.LimitWithoutBurst),
			known(c.LimitWithBurst.Finding, c.LimitWithBurst), known(c.Burst.Finding, c.Burst), known(c.Period.Finding, c.Period),
			known(c.Binding.Finding, c.Binding), known(c.Parallelism.Finding, c.Parallelism), known(c.ScaleOut.Finding, c.ScaleOut),
			known(c.Curve.Finding, c.Curve), c.verdict(r.Goal), nil, c.Timescales, nil}
		if d, ok := c.Decide(r.Goal); ok {
			one.Decision = d
		}
		if c.Node != nil {
			one.Node = known(c.Node.Finding, c.Node)
		}
		out.Containers = append(out.Containers, one)
	}
	return out
}

// title returns the container's name, or the path of its group.
func (c *Container) title() string {
	switch {
	case c.Twin:
		return c.heading()
	case c.Name != "":
		return report.Printable(c.Name)
	}
	return report.Printable(c.Group)
}

// heading returns the name and the path of the group.
func (c *Container) heading() string {
	if c.Name == "" {
		return report.Printable(c.Group)
	}
	return report.Printable(fmt.Sprintf("%s (%s)", c.Name, c.Group))
}

// verdict is the advice in one sentence: what to set, and what that does.
func (c *Container) verdict(goal advice.Goal) string {
	l, b, r := &c.LimitWithBurst, &c.Burst, &c.Recorded
	wanted := quantity.Share(goal.ThrottleRatio)
	d, ok := c.Decide(goal)
	switch {
	case !ok:
		return fmt.Sprintf("%s: set no new limit yet, for the reason below.", c.title())
	case d.Repairs:
		return fmt.Sprintf("%s: keep the limit of %s and set a burst of %s; that throttles %s of the recorded periods (wanted: at most %s), and %s without it.",
			c.title(), quantity.CPUs(d.LimitCPUs), percent(d.BurstPercent), quantity.Share(b.ThrottleRatioWith), wanted, quantity.Share(b.ThrottleRatioWithout))
	case d.Keeps:
		enough := ""
		if b.BurstPercent < d.BurstPercent {
			enough = fmt.Sprintf(" with a burst of %s", percent(b.BurstPercent))
		}
		return fmt.Sprintf("%s: keep the limit of %s; it throttles %s of the recorded periods%s (wanted: at most %s).",
			c.title(), setting(d.LimitCPUs, d.BurstPercent), quantity.Share(b.ThrottleRatioWith), enough, wanted)
	}
	text := c.title() + ": "
	if c.Suffices() {
		text += fmt.Sprintf("the limit of %s suffices; to save CPUs, ", quantity.CPUs(r.LimitCPUs))
	}
	text += fmt.Sprintf("set a limit of %s; that throttles %s of the recorded periods (wanted: at most %s)", setting(l.LimitCPUs, l.BurstPercent), quantity.Share(l.ThrottleRatio), wanted)
	if r.LimitCPUs > 0 && r.ThrottleRatio != nil {
		text += fmt.Sprintf(", while the present limit of %s throttled %s", quantity.CPUs(r.LimitCPUs), quantity.Share(*r.ThrottleRatio))
	}
	return text + "."
}

// setting formats a limit with its burst.
func setting(cpus, burst float64) string {
	if burst == 0 {
		return quantity.CPUs(cpus).String() + " without burst"
	}
	return fmt.Sprintf("%s and a burst of %s", quantity.CPUs(cpus), percent(burst))
}

func percent(value float64) string { return quantity.Number(value, 1) + "%" }

// rounded formats a time with a suitable precision.
func rounded(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(10 * time.Microsecond)
	}
	return d.String()
}

const (
	nameWidth = 11  // of the names of rows
	maxWidth  = 110 // longer lines are hard to read
)

// Text prints the report in lines of at most width characters, [report.DefaultWidth] if 0. Verbose
// text has everything.
func (r *Report) Text(w io.Writer, width int, verbose bool) error {
	if width == 0 {
		width = report.DefaultWidth
	}
	p := printer{bufio.NewWriter(w), min(max(width, report.MinWidth), maxWidth)}
	for i := range r.Containers {
		if i > 0 {
			fmt.Fprintln(p)
		}
		p.container(&r.Containers[i], r.Goal, verbose)
	}
	return report.Flush(p.Writer, "print the advice")
}

type printer struct {
	*bufio.Writer
	width int
}

func (p printer) container(c *Container, goal advice.Goal, verbose bool) {
	for _, part := range report.Wrap(c.verdict(goal), p.width) {
		fmt.Fprintln(p, part)
	}
	fmt.Fprintln(p)
	if !verbose {
		for _, line := range c.short(goal) {
			p.line(line[0], line[1])
		}
		return
	}
	p.line("group", c.heading())
	for _, fact := range c.facts() {
		p.line(fact[0], fact[1])
	}
	before := ""
	for _, row := range c.rows(goal) {
		text := row.sentence()
		if text == before {
			text = "the same"
		} else {
			before = text
		}
		p.line(row.Name, text)
	}
}

// line prints a name and a text, wrapped.
func (p printer) line(name, text string) {
	for _, part := range report.Wrap(text, p.width-nameWidth) {
		fmt.Fprintf(p, "%-*s%s\n", nameWidth, name, part)
		name = ""
	}
}
