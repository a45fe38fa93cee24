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
	all := make([]findings, len(runs))
	for i, r := range runs {
		var err error
		if all[i], err = r.findings(); err != nil {
			return err
		}
	}
	out, drawn := markdown{bufio.NewWriter(w)}, pictures(runs)
	if len(all) > 1 {
		out.overview(all)
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

// overview prints the published figures of all experiments.
func (m markdown) overview(all []findings) {
	m.print("# Experiments\n")
	m.row("experiment", "figure", "published", "measured (95% interval)", "conclusion")
	m.row("---", "---", "---", "---", "---")
	for _, f := range all {
		for i, c := range f.Claims {
			m.row(first(i, f.Name), c.What, c.Published, c.Measured, fmt.Sprint(c.Conclusion))
		}
		if len(f.Claims) == 0 {
			m.row(f.Name, strings.Join(f.Answers, " "), "", "", "")
		}
	}
	m.print("")
}

func (m markdown) section(f *findings, drawn []Picture) {
	m.print("## %s\n", escape(f.Question))
	if f.Incomplete != "" {
		m.print("**%s**\n", escape(f.Incomplete))
	}
	for _, answer := range f.Answers {
		m.print("%s\n", escape(answer))
	}
	if f.Source != "" {
		m.print("Source: %s.\n", escape(strings.TrimSuffix(f.Source, ".")))
	}
	if len(f.Claims) > 0 {
		m.claims(f.Claims)
	}
	for _, p := range drawn {
		m.print("![%s](%s)\n", escape(p.Title), p.File)
	}
	for _, t := range f.Tables {
		m.figures(t)
	}
	m.print("%s\n", f.Rounds)
	m.generators(f)
	if len(f.Notes) > 0 {
		m.print("### Notes\n")
	}
	m.list(f.Notes)
	m.print("### Environment\n")
	m.row("", "")
	m.row("---", "---")
	for _, e := range f.Environment {
		m.row(e.Name, e.Value)
	}
	m.print("\nTo repeat it: `%s`", f.Command)
}

// claims prints the published figures, and then what each comparison concludes.
func (m markdown) claims(all []claim) {
	m.print("### Published and measured\n")
	m.row("figure", "condition", "published", "measured", "95% interval")
	m.row("---", "---", "---", "---", "---")
	for _, c := range all {
		for i, l := range c.Lines {
			m.row(first(i, c.Title), l.Name, l.Published, l.Measured, l.Interval)
		}
	}
	m.print("")
	for _, c := range all {
		m.print("- %s", escape(strings.TrimSpace(fmt.Sprintf("%s: %s %s", c.What, c.Conclusion, c.Note))))
	}
	m.print("")
}

// first returns a text in the first of some rows.
func first(row int, text string) string {
	if row > 0 {
		return ""
	}
	return text
}

func (m markdown) figures(t figureTable) {
	title := "All figures"
	if t.Load != "" {
		title += ", load: " + t.Load
	}
	m.print("### %s\n", escape(title))
	m.row("figure", "condition", "median", "95% interval", "change", "95% interval", "p")
	m.row("---", "---", "---", "---", "---", "---", "---")
	for _, f := range t.Figures {
		for i, r := range f.Rows {
			m.row(first(i, f.Label), r.Condition, r.Median, r.Interval, r.Change, r.ChangeInterval, r.P)
		}
	}
	m.print("")
}

func (m markdown) generators(f *findings) {
	m.print("### Load generator and disturbances\n")
	if len(f.Generators) > 0 {
		m.row("load", "CPU time of a request", "largest share of the CPUs", "largest lateness", "most requests it could send")
		m.row("---", "---", "---", "---", "---")
		for _, g := range f.Generators {
			m.row(g.Load, g.Cost, g.Share, g.Lateness, g.Most)
		}
		m.print("")
	}
	m.print("%s\n", f.Disturbed)
	m.list(f.Reasons)
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
		switch cell {
		case "---":
			m.WriteString("|---")
		case "":
			m.WriteString("| ")
		default:
			m.WriteString("| " + escape(cell) + " ")
		}
	}
	m.print("|")
}

// escape keeps text from being taken for Markdown or HTML.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", `\<`, "*", `\*`, "`", "\\`", "[", `\[`, "_", `\_`).Replace(text)
}
