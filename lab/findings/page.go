package findings

import (
	_ "embed" // for the page
	"fmt"
	"html/template"
	"io"

	"pinfold.dev/pinfold/report/chart"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
)

// page is the data of the template.
type page struct {
	Style    template.CSS
	Title    string
	Program  string
	Several  bool
	Tally    string // of the verdicts
	Machine  string
	Again    string // how often several runs agree
	Apart    table  // where they do not
	Sections []section
}

// section is a run on the page.
type section struct {
	findings
	ID        string
	Overview  [][]string
	Bars      []bars
	Latencies []chart.Figure
	Usage     usageCharts
	Times     timeTable
	Remarks   []string // on what could not be drawn
}

// Page writes an HTML page about one or several runs. program made it.
func Page(w io.Writer, runs []Run, program string) error {
	p := page{Style: chart.CSS(pageCSS), Title: "Experiments", Program: plain(program), Several: len(runs) != 1}
	runs = Prepare(runs)
	all, err := describe(runs)
	if err != nil {
		return err
	}
	for i, r := range runs {
		f := all[i]
		s := section{findings: f, ID: fmt.Sprintf("experiment-%d", i+1), Overview: f.Results.flat(), Bars: r.bars(), Times: r.times()}
		charts, remarks := r.latencies()
		s.Remarks = remarks
		for _, c := range charts {
			figure, ok, err := c.Figure("")
			switch {
			case err != nil:
				s.Remarks = append(s.Remarks, fmt.Sprintf("Latencies cannot be drawn: %v.", err))
			case ok:
				s.Latencies = append(s.Latencies, figure)
			}
		}
		s.Usage, remarks = r.usage()
		s.Remarks = append(s.Remarks, remarks...)
		p.Sections = append(p.Sections, s)
	}
	p.Tally, p.Machine = tally(all), machines(runs)
	p.Again, p.Apart = again(runs)
	if !p.Several {
		p.Title = p.Sections[0].Question
	}
	return chart.WritePage(w, pageHTML, p)
}
