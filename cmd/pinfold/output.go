package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"pinfold.dev/pinfold/report"
)

// printJSON prints one value on a line of its own.
func printJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// widestMap keeps maps readable on very wide terminals.
const widestMap = 160

// mapOptions fits maps to the terminal that w is: its width, and colour unless
// the environment has NO_COLOR (https://no-color.org) or a dumb terminal.
// Anything that is no terminal gets plain text, 80 characters wide.
func mapOptions(w io.Writer) report.MapOptions {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return report.MapOptions{}
	}
	opts := report.MapOptions{Colour: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		opts.Width = min(max(width, report.MinWidth), widestMap)
	}
	return opts
}
