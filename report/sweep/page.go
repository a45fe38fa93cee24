package sweep

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"strconv"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report/chart"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// page is the data of the template.
type page struct {
	*Sweep
	CSS           template.CSS
	Periods       string
	RuleText      string
	Thumb         string
	Distributions []section
	Uncertain     int
	Warnings      []string
}

type section struct {
	Label   string
	Safe    table
	Figures []figure
}

type figure struct {
	chart.Figure
	Table table
}

// table has a column for each burst, under the numbers of groups.
type table struct {
	Corner  string
	Cgroups []int
	Bursts  []string
	Rows    []row
}

type row struct {
	Name  string
	Cells []cell
}

type cell struct {
	Text, Error string
	Uncertain   bool
}

// Page writes the HTML page.
func (s *Sweep) Page(w io.Writer) error {
	p := page{Sweep: s, CSS: chart.CSS(pageCSS), Periods: s.periods(), RuleText: ruleText(s.Rule),
		Thumb: percent(RuleOfThumb), Uncertain: s.Uncertain(), Warnings: s.warnings()}
	for _, d := range s.Distributions {
		lines := s.lines(d.Name)
		one := section{Label: d.Label, Safe: safe(lines)}
		for _, m := range measures() {
			drawn, _, err := s.chart(d, m).Figure(m.title + ": " + m.about + ".")
			if err != nil {
				return fmt.Errorf("%s of %s: %w", m.title, d.Label, err)
			}
			one.Figures = append(one.Figures, figure{drawn, m.table(lines)})
		}
		p.Distributions = append(p.Distributions, one)
	}
	return chart.WritePage(w, pageHTML, p)
}

// periods returns the number of periods of a simulation, or its range.
func (s *Sweep) periods() string {
	low, high := int64(math.MaxInt64), int64(0)
	for _, p := range s.Points {
		low, high = min(low, p.Result.Periods), max(high, p.Result.Periods)
	}
	if low >= high {
		return thousands(high)
	}
	return thousands(low) + " to " + thousands(high)
}

// thousands separates groups of digits with spaces.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

func ruleText(r interference.Rule) string {
	switch r {
	case interference.Published:
		return "A period misses its deadline when more is wanted than is left, as under strict; but when every container wants " +
			"its whole quota or more, nothing is left to share out, and the period counts as met. This is the rule of the tables " +
			"published on the Linux kernel's mailing list. With few containers and high load it hides many misses."
	case interference.Apart:
		return "The periods of each container begin at a time of their own, as in the kernel. A period of the machine misses its deadline " +
			"if no CPU was idle in it, and work is left that quotas and bursts let through."
	}
	return "A period misses its deadline whenever all containers together may use, and want, more than the machine has."
}

// warnings returns the warnings of the simulator, each with its combination.
func (s *Sweep) warnings() []string {
	var all []string
	for _, d := range s.Distributions {
		for _, l := range s.lines(d.Name) {
			for _, p := range l.points {
				for _, w := range p.Result.Warnings {
					all = append(all, fmt.Sprintf("%s, %s, m = %d, b = %s: %s", d.Label, percent(p.Mean), p.Cgroups, burstText(p.Burst), w))
				}
			}
		}
	}
	return all
}

func percent(share float64) string { return quantity.Share(share).Digits(6) }

// head returns a table without rows.
func head(lines []line) table {
	t := table{Cgroups: distinct(lines, cgroupsOf)}
	for _, b := range distinct(lines, burstOf) {
		t.Bursts = append(t.Bursts, burstText(b))
	}
	return t
}

// table returns a table with a row for each mean.
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

// cell formats a figure to the second digit of its standard error, with at most m.places decimal
// places. The CSV file has all digits.
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

// safe returns a table with one row: the highest mean up to which P(WCET = 1), minus two standard
// errors, is at least [interference.Safe].
func safe(lines []line) table {
	t := head(lines)
	r := row{Name: fmt.Sprintf("P(WCET = 1) ≥ %s up to", percent(interference.Safe))}
	for _, l := range lines {
		r.Cells = append(r.Cells, cell{Text: upTo(l)})
	}
	t.Rows = []row{r}
	return t
}

func upTo(l line) string {
	enough := func(e interference.Estimate) bool { return e.Value-errorsOfBars*e.StandardError >= interference.Safe }
	text := "below " + percent(l.points[0].Mean)
	for _, p := range l.points {
		if !enough(p.Result.ProbabilityWCET1) {
			break
		}
		text = percent(p.Mean)
	}
	return text
}
