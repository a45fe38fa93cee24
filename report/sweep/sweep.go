// Package sweep renders the results of a simulator sweep: how E[WCET] and P(WCET = 1) change with
// utilisation, for several numbers of groups and bursts.
//
// [Sweep.Files] turns a [Sweep] into files:
//
//	index.html                    everything on one self-contained page
//	sweep.csv                     the numbers, with their standard errors
//	NAME-expected-wcet.svg .png   E[WCET] for each distribution, downwards, so that up is better
//	NAME-probability-wcet1.svg .png
//
// In the charts, colour and marker show the number of groups, dashes show the burst, and bars are
// two standard errors, where visible. A hollow point may be wrong by more than the chart shows
// (Point.uncertain). Warnings of the simulator are in the page and in the CSV file.
package sweep

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/interference"
)

// Sweep is a set of simulations that differ in distribution, mean, number of groups and burst.
type Sweep struct {
	Command       string // the command line
	Program       string // name and version
	Rule          interference.Rule
	Seed          uint64
	Distributions []Distribution // in the order of the page
	Points        []Point        // each combination once, in any order
}

// Distribution is a distribution of the demand.
type Distribution struct {
	Name  string // in file names
	Label string // such as "Pareto demand of shape 4"
}

// Point is one simulation.
type Point struct {
	Distribution string  // Distribution.Name
	Mean         float64 // demand of a group, in multiples of its quota
	Cgroups      int
	Burst        float64 // multiples of the quota; +Inf is unlimited
	Result       *interference.Result
}

// The numbers of lines that a reader can tell apart in a chart.
const (
	MaxCgroups = 6
	MaxBursts  = 4
)

// RuleOfThumb is the utilisation up to which burst does little harm according to the authors of CPU
// burst.
const RuleOfThumb = 0.7

// File is a file of a sweep.
type File struct {
	Name    string
	Content []byte
}

// Files returns all files, which belong into one directory.
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

// CSV writes a row for each simulation: distributions in their order, then numbers of groups,
// bursts and means ascending. The columns have the names of "pinfold simulate -o json".
func (s *Sweep) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"distribution", "mean", "cgroups", "burst", "rule", "seed", "periods", "expectedWCET", "expectedWCETStandardError",
		"probabilityWCET1", "probabilityWCET1StandardError", "throttleRatio", "throttleRatioStandardError", "warnings"}}
	for _, d := range s.Distributions {
		for _, l := range s.lines(d.Name) {
			for _, p := range l.points {
				rows = append(rows, s.row(p))
			}
		}
	}
	return out.WriteAll(rows) // which flushes
}

func (s *Sweep) row(p Point) []string {
	r := p.Result
	row := []string{p.Distribution, number(p.Mean), strconv.Itoa(p.Cgroups), burstText(p.Burst), s.Rule.String(),
		strconv.FormatUint(s.Seed, 10), strconv.FormatInt(r.Periods, 10)}
	for _, e := range []interference.Estimate{r.ExpectedWCET, r.ProbabilityWCET1, r.Groups[0].ThrottleRatio} {
		row = append(row, number(e.Value), number(e.StandardError))
	}
	return append(row, strings.Join(r.Warnings, "; "))
}

// number formats a number so that it parses as the same value.
func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// ChartFiles returns the names of the charts of a distribution.
func ChartFiles(distribution string) []string {
	var names []string
	for _, m := range measures() {
		names = append(names, distribution+"-"+m.name+".svg", distribution+"-"+m.name+".png")
	}
	return names
}

// Smaller values are invisible in a chart.
const (
	visibleWCET  = 0.01  // a standard error of E[WCET], as a part of it
	visibleMet   = 0.005 // a standard error of P(WCET = 1)
	visibleMiss  = 0.001 // P(WCET > 1); below, warnings of the simulator do not matter
	errorsOfBars = 2     // standard errors
)

// uncertain reports whether the error may be visible.
func (p *Point) uncertain() bool {
	wcet, met := p.Result.ExpectedWCET, p.Result.ProbabilityWCET1
	return wcet.StandardError > visibleWCET*wcet.Value || met.StandardError > visibleMet ||
		len(p.Result.Warnings) > 0 && 1-met.Value > visibleMiss
}

// Uncertain returns the number of uncertain points.
func (s *Sweep) Uncertain() int {
	n := 0
	for i := range s.Points {
		if s.Points[i].uncertain() {
			n++
		}
	}
	return n
}

// line contains the points of one distribution, number of groups and burst, in order of the mean.
type line struct {
	cgroups int
	burst   float64
	points  []Point
}

// lines returns the lines of a distribution in order of the number of groups, then the burst.
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

// distinct returns the distinct values of all lines, in order.
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

// burstText formats a burst in multiples of the quota.
func burstText(b float64) string {
	if math.IsInf(b, 1) {
		return "inf"
	}
	return strconv.FormatFloat(b, 'f', -1, 64)
}
