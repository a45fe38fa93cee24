package doctor

import (
	"fmt"
	"io"
	"strings"

	"pinfold.dev/pinfold/core/quantity"
)

// WriteText writes the report for people: a line for every check, and below it what to
// do where there is something to do.
func WriteText(w io.Writer, r Report) error {
	width := 0
	for _, one := range r {
		width = max(width, len(one.Check))
	}
	var b strings.Builder
	section := ""
	for _, one := range r {
		if one.Section != section {
			if section != "" {
				b.WriteString("\n")
			}
			section = one.Section
			fmt.Fprintln(&b, section)
		}
		fmt.Fprintf(&b, "  %-7s  %-*s  %s\n", one.Status, width, one.Check, one.Found)
		if one.Do != "" {
			fmt.Fprintf(&b, "  %-7s  %-*s  -> %s\n", "", width, "", one.Do)
		}
	}
	fmt.Fprintf(&b, "\n%s\n", verdict(r))
	_, err := io.WriteString(w, b.String())
	return err
}

func verdict(r Report) string {
	notes := 0
	for _, one := range r {
		if one.Status == Note {
			notes++
		}
	}
	switch n := r.Problems(); {
	case n > 0:
		return quantity.Count(n, "problem") + ": see what stands after ->"
	case notes > 0:
		return "no problems, " + quantity.Count(notes, "note")
	default:
		return "no problems"
	}
}
