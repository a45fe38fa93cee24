package findings

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"pinfold.dev/pinfold/report"
)

// summaryWidth is where sentences are wrapped.
const summaryWidth = 98

// Summary writes the results of a run and all figures as text.
func Summary(w io.Writer, run Run) error {
	f, err := Prepare([]Run{run})[0].findings()
	if err != nil {
		return err
	}
	s := summary{bufio.NewWriter(w)}
	s.wrapped("", f.Question)
	if f.Incomplete != "" {
		fmt.Fprintln(s)
		s.wrapped("", f.Incomplete)
	}
	fmt.Fprintln(s)
	s.results(f.Results)
	for _, t := range f.Tables {
		fmt.Fprintln(s)
		if t.Load != "" {
			s.wrapped("", "Load: "+t.Load)
		}
		s.table(t)
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

// results prints the cells of each row below each other.
func (s summary) results(t table) {
	for _, row := range t.flat() {
		s.wrapped("  ", row[0]+", "+row[1])
		for i, cell := range row[2:] {
			if cell != "" {
				fmt.Fprintf(s, "  %-12s  %s\n", t.Heads[i+2], cell)
			}
		}
	}
}

// table prints a table with aligned columns and without trailing spaces. Intervals are in
// parentheses.
func (s summary) table(t table) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	heads := t.Heads[2:]               // the first columns are one
	none := make([]string, len(heads)) // a row without a column would end its alignment
	row := func(name string, cells []string) {
		line := []string{name}
		for i, cell := range cells {
			switch heads[i] {
			case interval95:
				if cell != "" {
					line[len(line)-1] += " (" + cell + ")"
				}
			case "p":
			default:
				line = append(line, cell)
			}
		}
		fmt.Fprintln(w, strings.Join(line, "\t"))
	}
	titles := slices.Clone(heads)
	for i := range titles {
		titles[i] = strings.TrimPrefix(titles[i], interval95)
	}
	row("", titles)
	for _, g := range t.Groups {
		row(g.Name, none)
		for _, cells := range g.Rows {
			row("  "+cells[0], cells[1:])
		}
	}
	_ = w.Flush() // a strings.Builder accepts everything
	for line := range strings.Lines(b.String()) {
		fmt.Fprintln(s, strings.TrimRight(line, " \n"))
	}
}
