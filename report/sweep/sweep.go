package sweep

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/report/chart"
)

// Sweep is a number of simulations that differ in distribution, mean, groups and burst.
type Sweep struct {
	Command       string // the command line
	Program       string // name and version
	Rule          interference.Rule
	Seed          uint64
	Distributions []Distribution // in the order of the page
	Points        []Point        // in any order, each combination once
}

// Distribution is a kind of demand.
type Distribution struct {
	Name  string // in file names
	Label string // to read, such as "Pareto demand of shape 4"
}

// Point is one simulation.
type Point struct {
	Distribution string  // a name
	Mean         float64 // demand of a group, in multiples of its quota
	Cgroups      int
	Burst        float64 // multiples of the quota; +Inf is without end
	Result       *interference.Result
}

// Limits of what the lines of a chart can tell apart.
const (
	MostCgroups = 6
	MostBursts  = 4
)

// RuleOfThumb is the utilisation up to which burst is said to do little harm (the
// authors of CPU burst, on its simulation).
const RuleOfThumb = 0.7

// File is one of the files of a sweep.
type File struct {
	Name    string
	Content []byte
}

// Files returns all files; they are to be together in a folder.
func (s *Sweep) Files() ([]File, error) {
	var files []File
	add := func(name string, write func(io.Writer) error) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		files = append(files, File{Name: name, Content: b.Bytes()})
		return nil
	}
	if err := add("index.html", s.Page); err != nil {
		return nil, err
	}
	if err := add("sweep.csv", s.CSV); err != nil {
		return nil, err
	}
	for _, d := range s.Distributions {
		for _, m := range measures() {
			c := s.chart(d, m)
			name := d.Name + "-" + m.name
			if err := cmp.Or(add(name+".svg", c.SVG), add(name+".png", c.PNG)); err != nil {
				return nil, err
			}
		}
	}
	return files, nil
}

// ChartFiles are the names of the charts of a distribution.
func ChartFiles(distribution string) []string {
	var names []string
	for _, m := range measures() {
		names = append(names, distribution+"-"+m.name+".svg", distribution+"-"+m.name+".png")
	}
	return names
}

// measure is what a chart shows.
type measure struct {
	name   string // in file names
	title  string
	about  string
	unit   float64 // values are shown in multiples of it
	places int     // behind the point, in tables, at most
	of     func(*interference.Result) interference.Estimate
	axis   chart.Axis
}

func measures() []measure {
	return []measure{
		{
			name: "expected-wcet", title: "E[WCET]", about: "periods until what was wanted in one is done, on average; further down is longer", unit: 1, places: 5,
			of:   func(r *interference.Result) interference.Estimate { return r.ExpectedWCET },
			axis: chart.Axis{Label: "E[WCET]", Unit: "periods", Inverted: true, Least: 1, Most: math.MaxInt32},
		},
		{
			name: "probability-wcet1", title: "P(WCET = 1)", about: "share of the periods in which all is done that was wanted", unit: 0.01, places: 4,
			of:   func(r *interference.Result) interference.Estimate { return r.ProbabilityWCET1 },
			axis: chart.Axis{Label: "P(WCET = 1)", Unit: "%", Least: 0, Most: 100},
		},
	}
}

// estimate is a figure of a result, in the unit of the chart.
func (m *measure) estimate(r *interference.Result) interference.Estimate {
	e := m.of(r)
	return interference.Estimate{Value: e.Value / m.unit, StandardError: e.StandardError / m.unit}
}

// What a chart shows: less cannot be seen.
const (
	visibleWCET  = 0.01  // a standard error of E[WCET], as a part of it
	visibleMet   = 0.005 // a standard error of P(WCET = 1)
	visibleMiss  = 0.001 // P(WCET > 1) from which on the simulator's doubts count
	errorsOfBars = 2     // standard errors
)

// uncertain says whether a result may be wrong by what can be seen.
func (p *Point) uncertain() bool {
	wcet, met := p.Result.ExpectedWCET, p.Result.ProbabilityWCET1
	return wcet.StandardError > visibleWCET*wcet.Value || met.StandardError > visibleMet ||
		len(p.Result.Warnings) > 0 && 1-met.Value > visibleMiss
}

// Uncertain returns how many points are.
func (s *Sweep) Uncertain() int {
	n := 0
	for i := range s.Points {
		if s.Points[i].uncertain() {
			n++
		}
	}
	return n
}

// line is the points of one distribution, number of groups and burst, by their mean.
type line struct {
	cgroups int
	burst   float64
	points  []Point
}

// lines are in the order of the groups, and then of the bursts.
func (s *Sweep) lines(distribution string) []line {
	var all []line
	for _, p := range s.Points {
		if p.Distribution != distribution {
			continue
		}
		i := slices.IndexFunc(all, func(l line) bool { return l.cgroups == p.Cgroups && l.burst == p.Burst })
		if i < 0 {
			i, all = len(all), append(all, line{cgroups: p.Cgroups, burst: p.Burst})
		}
		all[i].points = append(all[i].points, p)
	}
	slices.SortFunc(all, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.cgroups, b.cgroups), cmp.Compare(a.burst, b.burst))
	})
	for _, l := range all {
		slices.SortStableFunc(l.points, func(a, b Point) int { return cmp.Compare(a.Mean, b.Mean) })
	}
	return all
}

// distinct returns the values of all lines, in order.
func distinct[T cmp.Ordered](lines []line, of func(line) T) []T {
	var all []T
	for _, l := range lines {
		all = append(all, of(l))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func cgroupsOf(l line) int   { return l.cgroups }
func burstOf(l line) float64 { return l.burst }

// burstText writes a burst as in the command's flags.
func burstText(b float64) string {
	if math.IsInf(b, 1) {
		return "inf"
	}
	return strconv.FormatFloat(b, 'f', -1, 64)
}
