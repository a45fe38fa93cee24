package command

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is a table of text. The first row is the heading.
type Table struct {
	Title string
	Left  int // number of columns of text, which are aligned left; columns of numbers follow
	Rows  [][]string
}

// Text prints tables for a terminal.
func Text(w io.Writer, tables ...Table) {
	for i, t := range tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if t.Title != "" {
			fmt.Fprintf(w, "%s\n\n", t.Title)
		}
		widths := make([]int, len(t.Rows[0]))
		for _, row := range t.Rows {
			for c, cell := range row {
				widths[c] = max(widths[c], utf8.RuneCountInString(cell))
			}
		}
		for _, row := range t.Rows {
			padded := make([]string, len(row))
			for c, cell := range row {
				width := widths[c]
				if c < t.Left {
					width = -width
				}
				padded[c] = fmt.Sprintf("%*s", width, cell)
			}
			fmt.Fprintln(w, strings.TrimRight(strings.Join(padded, "  "), " "))
		}
	}
}

// Markdown prints tables for a document.
func Markdown(w io.Writer, tables ...Table) {
	for i, t := range tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if t.Title != "" {
			fmt.Fprintf(w, "**%s**\n\n", t.Title)
		}
		for l, row := range t.Rows {
			fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
			if l == 0 {
				fmt.Fprintf(w, "|%s%s\n", strings.Repeat("---|", t.Left), strings.Repeat("--:|", len(row)-t.Left))
			}
		}
	}
}
