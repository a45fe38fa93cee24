// Package terminal detects how to draw on a writer: in colour and at the terminal's width if it is
// a terminal, otherwise as plain text.
package terminal

import (
	"fmt"
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

// Size returns the size of a terminal, or the usual one.
func Size(f *os.File) (width, height int) {
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		return 80, 24
	}
	return width, height
}

// FullScreen reads keys one by one and shows xterm's alternate screen, without a cursor, until
// restore is called.
func FullScreen(keys, screen *os.File) (restore func(), err error) {
	before, err := term.MakeRaw(int(keys.Fd()))
	if err != nil {
		return nil, fmt.Errorf("read keys one by one: %w: use --once", err)
	}
	fmt.Fprint(screen, "\x1b[?1049h\x1b[?25l")
	return func() {
		fmt.Fprint(screen, LeaveScreen)
		_ = term.Restore(int(keys.Fd()), before) // fails only if the terminal is gone
	}, nil
}

// LeaveScreen is what a terminal gets at the end of [FullScreen].
const LeaveScreen = "\x1b[?25h\x1b[?1049l"

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
