package findings

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"pinfold.dev/pinfold/report"
)

// summaryWidth is where sentences are wrapped.
const summaryWidth = 98

// Summary writes the answer of a run and its figures as text.
func Summary(w io.Writer, run Run) error {
	f, err := run.findings()
	if err != nil {
		return err
	}
	s := summary{bufio.NewWriter(w)}
	s.wrapped("", f.Question)
	for _, text := range append([]string{f.Incomplete}, f.Answers...) {
		if text != "" {
			fmt.Fprintln(s)
			s.wrapped("", text)
		}
	}
	if len(f.Claims) > 0 {
		s.claims(f.Claims)
	}
	for _, t := range f.Tables {
		s.figures(t)
	}
	fmt.Fprintln(s)
	s.wrapped("", f.Rounds+" "+f.Disturbed)
	return report.Flush(s.Writer, "print the summary")
}

type summary struct{ *bufio.Writer }

// wrapped prints a text in lines, with an indent from the second line on.
func (s summary) wrapped(indent, text string) {
	for i, line := range report.Wrap(text, summaryWidth-len(indent)) {
		fmt.Fprintln(s, strings.Repeat(indent, min(i, 1))+line)
	}
}

func (s summary) claims(all []claim) {
	fmt.Fprintln(s)
	s.table(func(row func(cells ...string)) {
		row("", "published", "measured")
		for _, c := range all {
			row(c.Title)
			for _, l := range c.Lines {
				row("  "+l.Name, l.Published, joined(l.Measured, l.Interval))
			}
		}
	})
	fmt.Fprintln(s)
	for _, c := range all {
		s.wrapped("  ", fmt.Sprintf("- %s: %s %s", c.What, c.Conclusion, c.Note))
	}
}

func (s summary) figures(t figureTable) {
	fmt.Fprintln(s)
	if t.Load != "" {
		s.wrapped("", "Load: "+t.Load)
	}
	s.table(func(row func(cells ...string)) {
		row("", "median", "change")
		for _, f := range t.Figures {
			row(f.Label)
			for _, r := range f.Rows {
				row("  "+r.Condition, joined(r.Median, r.Interval), joined(r.Change, r.ChangeInterval))
			}
		}
	})
}

// table prints rows whose cells are aligned, without trailing spaces.
func (s summary) table(fill func(row func(cells ...string))) {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fill(func(cells ...string) {
		// Rows have all cells, because a row without a column would end its alignment.
		for range 3 - len(cells) {
			cells = append(cells, "")
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	})
	_ = t.Flush() // a strings.Builder accepts everything
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(s, strings.TrimRight(line, " \n"))
	}
}
