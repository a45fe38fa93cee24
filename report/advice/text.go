package advice

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/report"
)

const (
	// nameWidth is that of the words at the left.
	nameWidth = 11
	// widest lines can still be read.
	widest = 110
)

// Text prints the advice for people, in lines of a width; 0 is report.DefaultWidth.
func (r *Report) Text(w io.Writer, width int) error {
	if width == 0 {
		width = report.DefaultWidth
	}
	p := printer{bufio.NewWriter(w), min(max(width, report.MinWidth), widest)}
	for i := range r.Containers {
		if i > 0 {
			fmt.Fprintln(p)
		}
		p.container(&r.Containers[i], r.Goal)
	}
	if err := p.Flush(); err != nil {
		return fmt.Errorf("print the advice: %w", err)
	}
	return nil
}

// printer prints lines of a width.
type printer struct {
	*bufio.Writer
	width int
}

func (p printer) container(c *Container, goal advice.Goal) {
	for _, part := range wrap(c.verdict(goal), p.width) {
		fmt.Fprintln(p, part)
	}
	fmt.Fprintln(p)
	p.line("group", c.heading())
	for _, fact := range c.facts() {
		p.line(fact[0], fact[1])
	}
	before := ""
	for _, row := range c.rows(goal) {
		text := row.sentence()
		if text == before {
			text = "the same"
		} else {
			before = text
		}
		p.line(row.Name, text)
	}
}

// heading is the group with the container's name.
func (c *Container) heading() string {
	if c.Name == "" {
		return report.Printable(c.Group)
	}
	return report.Printable(fmt.Sprintf("%s (%s)", c.Name, c.Group))
}

// sentence is the whole advice. Reasons may say the confidence interval themselves.
func (r *row) sentence() string {
	switch {
	case r.Value == "":
		return r.Reason
	case r.Interval == "" || strings.Contains(r.Reason, "confidence"):
		return r.Value + ": " + r.Reason
	}
	return fmt.Sprintf("%s (%s with 95%% confidence): %s", r.Value, r.Interval, r.Reason)
}

// line prints a name and a text, on as many lines as it needs.
func (p printer) line(name, text string) {
	for _, part := range wrap(text, p.width-nameWidth) {
		fmt.Fprintf(p, "%-*s%s\n", nameWidth, name, part)
		name = ""
	}
}

// wrap breaks a text between words; longer words are cut.
func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		for line == "" && utf8.RuneCountInString(word) > width || line != "" && utf8.RuneCountInString(line+" "+word) > width {
			if line == "" {
				cut := string([]rune(word)[:width])
				lines, word = append(lines, cut), word[len(cut):]
				continue
			}
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}
