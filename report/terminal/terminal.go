// Package terminal detects how to draw on a writer: in colour and at the terminal's width if it is
// a terminal, otherwise as plain text.
package terminal

import (
	"io"
	"os"

	"golang.org/x/term"

	"pinfold.dev/pinfold/report"
)

// widest is the maximum width of maps, which would be hard to read on very wide terminals.
const widest = 160

// Is reports whether w is a terminal.
func Is(w io.Writer) bool {
	_, ok := descriptor(w)
	return ok
}

func descriptor(w io.Writer) (int, bool) {
	file, ok := w.(*os.File)
	if !ok {
		return 0, false
	}
	fd := int(file.Fd())
	return fd, term.IsTerminal(fd)
}

// Columns returns the width of the terminal w. It is 0 if w is not a terminal or its width is
// unknown.
func Columns(w io.Writer) int {
	fd, ok := descriptor(w)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(fd)
	if err != nil {
		return 0
	}
	return max(width, 0)
}

// MapOptions returns options that fit the terminal w: its width, and colour unless the environment
// has NO_COLOR (https://no-color.org) or a dumb terminal. If w is not a terminal, maps are plain
// text of the default width.
func MapOptions(w io.Writer, getenv func(string) string) report.MapOptions {
	if !Is(w) {
		return report.MapOptions{}
	}
	options := report.MapOptions{Colour: getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"}
	if width := Columns(w); width > 0 {
		options.Width = min(max(width, report.MinWidth), widest)
	}
	return options
}
