package findings

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"pinfold.dev/pinfold/report"
)

// Markdown writes a section for each run, after an overview if there are several. It refers to
// the [Pictures] of the runs. It has no HTML, and its tables can be read as text.
func Markdown(w io.Writer, runs []Run) error {
	runs = Prepare(runs)
	all, err := describe(runs)
	if err != nil {
		return err
	}
	out, drawn := markdown{bufio.NewWriter(w)}, pictures(runs)
	if len(all) > 1 {
		out.overview(all, runs)
	}
	for i := range all {
		if i > 0 {
			out.print("")
		}
		out.section(&all[i], drawn[i])
	}
	return report.Flush(out.Writer, "write the report")
}

type markdown struct{ *bufio.Writer }

// print prints a line.
func (m markdown) print(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

// overview prints the results of all experiments.
func (m markdown) overview(all []findings, runs []Run) {
	m.print("# Experiments\n\n%s %s\n", escape(tally(all)), escape(machines(runs)))
	t := table{Heads: append([]string{"experiment"}, all[0].Results.Heads...)}
	for _, f := range all {
		t.Groups = append(t.Groups, group{f.Name, f.Results.flat()})
	}
	m.table(t)
	text, apart := again(runs)
	if text != "" {
		m.print("%s\n", escape(text))
	}
	if apart.Groups != nil {
		m.print("These do not overlap:\n")
		m.table(apart)
	}
}

func (m markdown) section(f *findings, drawn []Picture) {
	m.print("## %s\n", escape(f.Question))
	if f.Incomplete != "" {
		m.print("**%s**\n", escape(f.Incomplete))
	}
	if f.Source != "" {
		m.print("Source: %s.\n", escape(strings.TrimSuffix(f.Source, ".")))
	}
	m.print("### Results\n")
	m.table(f.Results)
	for _, p := range drawn {
		m.print("![%s](%s)\n", escape(p.Title), p.File)
	}
	for _, t := range f.Tables {
		title := "All figures"
		if t.Load != "" {
			title += ", load: " + t.Load
		}
		m.print("### %s\n", escape(title))
		m.table(t)
	}
	m.print("%s\n", f.Rounds)
	m.print("### Load generator and disturbances\n")
	if len(f.Generators.Groups) > 0 {
		m.table(f.Generators)
	}
	m.print("%s\n", f.Disturbed)
	m.list(f.Reasons)
	if len(f.Notes) > 0 {
		m.print("### Notes\n")
	}
	m.list(f.Notes)
	m.print("### Environment\n")
	m.table(table{Heads: []string{"", ""}, Groups: []group{{Rows: f.Environment}}})
	m.print("To repeat it: `%s`", f.Command)
}

// table prints a table. The name of a group is in its first row; a table without names of groups
// has no column for them.
func (m markdown) table(t table) {
	m.row(t.Heads...)
	m.print("%s|", strings.Repeat("|---", len(t.Heads)))
	for _, g := range t.Groups {
		name := g.Name
		for _, cells := range g.Rows {
			if len(cells) < len(t.Heads) {
				cells = append([]string{name}, cells...)
			}
			m.row(cells...)
			name = ""
		}
	}
	m.print("")
}

// list prints lines, and an empty one if there are any.
func (m markdown) list(lines []string) {
	if len(lines) == 0 {
		return
	}
	for _, line := range lines {
		m.print("- %s", escape(line))
	}
	m.print("")
}

// row prints a row of a table.
func (m markdown) row(cells ...string) {
	for _, cell := range cells {
		m.WriteString("| ")
		if cell != "" {
			m.WriteString(escape(cell) + " ")
		}
	}
	m.print("|")
}

// escape keeps text from being taken for Markdown or HTML.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", `\<`, "*", `\*`, "`", "\\`", "[", `\[`, "_", `\_`).Replace(text)
}
