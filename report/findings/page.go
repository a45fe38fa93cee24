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
	Style     template.CSS
	Title     string
	Program   string
	Several   bool
	Tally     string
	Agreement string // with other runs
	Sections  []section
}

// section is a run on the page.
type section struct {
	findings
	ID        string
	Bars      []bars
	Latencies []chart.Figure
	Usage     usageCharts
	Times     timeTable
	Remarks   []string // on what could not be drawn
}

// Page writes an HTML page about one or several runs. program made it.
func Page(w io.Writer, runs []Run, program string) error {
	p := page{Style: chart.CSS(pageCSS), Title: "Experiments", Program: plain(program), Several: len(runs) != 1}
	var all []findings
	runs = Judge(runs)
	for n, i := range concludedFirst(runs) {
		r := runs[i]
		f, err := r.findings()
		if err != nil {
			return err
		}
		s := section{findings: f, ID: fmt.Sprintf("experiment-%d", n+1), Bars: r.bars(), Times: r.times()}
		charts, remarks := r.latencies()
		s.Remarks = remarks
		for i, c := range append(charts, r.tradeoff()) {
			caption := ""
			switch i {
			case len(charts) - 1:
				caption = "All undisturbed windows together. Higher up are the slowest requests; a curve further to the left is faster."
			case len(charts):
				caption = "The 99th percentile with its 95% interval. Further to the right more of the CPUs is used; lower down is faster."
			}
			figure, ok, err := c.Figure(caption)
			switch {
			case err != nil:
				s.Remarks = append(s.Remarks, fmt.Sprintf("Latencies cannot be drawn: %v.", err))
			case ok:
				s.Latencies = append(s.Latencies, figure)
			}
		}
		s.Usage, remarks = r.usage()
		s.Remarks = append(s.Remarks, remarks...)
		p.Sections, all = append(p.Sections, s), append(all, f)
	}
	p.Tally, p.Agreement = tally(all), agreement(all)
	if !p.Several {
		p.Title = p.Sections[0].Question
	}
	return chart.WritePage(w, pageHTML, p)
}
