package sweep

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report/chart"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// page is what the template shows.
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

// section is a distribution.
type section struct {
	Label   string
	Safe    table
	Figures []figure
}

// figure is a chart with its numbers.
type figure struct {
	Title, About string
	Chart        template.HTML
	Table        table
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
	t, err := template.New("page").Parse(pageHTML)
	if err != nil {
		return fmt.Errorf("the page's template: %w", err)
	}
	p := page{Sweep: s, CSS: template.CSS(chart.CSS() + pageCSS), Periods: s.periods(), RuleText: ruleText(s.Rule),
		Thumb: percent(RuleOfThumb), Uncertain: s.Uncertain(), Warnings: s.warnings()}
	for _, d := range s.Distributions {
		lines := s.lines(d.Name)
		one := section{Label: d.Label, Safe: safe(lines)}
		for _, m := range measures() {
			drawn, err := s.chart(d, m).HTML()
			if err != nil {
				return fmt.Errorf("%s of %s: %w", m.title, d.Label, err)
			}
			one.Figures = append(one.Figures, figure{Title: m.title, About: m.about, Chart: template.HTML(drawn), Table: m.table(lines)})
		}
		p.Distributions = append(p.Distributions, one)
	}
	return t.Execute(w, p)
}

// periods are those of one simulation, or from the fewest to the most.
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

// thousands puts spaces between groups of digits.
func thousands(n int64) string {
	text := strconv.FormatInt(n, 10)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "\u202f" + text[i:]
	}
	return text
}

func ruleText(r interference.Rule) string {
	if r == interference.Published {
		return "A period misses its deadline when more is wanted than is left, as under strict; but when every container wants " +
			"its whole quota or more, nothing is left to share out, and the period counts as met. This is the rule of the tables " +
			"published on the Linux kernel's mailing list. With few containers and high load it hides many misses."
	}
	return "A period misses its deadline whenever all containers together may use, and want, more than the machine has."
}

// warnings are what the simulator doubts, with the combination that it is about.
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
