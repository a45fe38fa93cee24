package frame

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/report"
)

// Printable is [report.Printable] for text of several lines.
func Printable(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = report.Printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// Notef prints a message with the prefix "pinfold: ".
func Notef(w io.Writer, format string, args ...any) {
	fmt.Fprintln(w, "pinfold:", Printable(fmt.Sprintf(format, args...)))
}

// Format is the value of -o.
type Format string

// The formats of most commands.
const (
	Text Format = "text"
	JSON Format = "json"
)

// OutputFlag adds -o text|json.
func OutputFlag(cmd *cobra.Command) *Format {
	output := new(Format)
	OneOf(cmd.Flags(), output, "output", "how to print the result", Text, JSON)
	return output
}

// PrintJSON prints a value as one line of JSON.
func PrintJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// WriteFile writes a file that appears complete or not at all. Without replace, an existing file is
// an error that wraps [fs.ErrExist].
func WriteFile(name string, content []byte, replace bool) error {
	err := atomicfile.Write(name, content, atomicfile.Options{Perm: 0o644, KeepOld: !replace, Sync: true})
	var wrong *os.PathError
	switch {
	case err == nil, errors.Is(err, fs.ErrExist):
		return err
	case errors.As(err, &wrong) && wrong.Op == atomicfile.Replace:
		return fmt.Errorf("write %s: %w: choose a name in another folder", name, err)
	}
	return fmt.Errorf("write %s: %w", name, err)
}

// SuggestForce adds to an error about an existing output what to do. err may be another error, or
// nil.
func SuggestForce(err error) error {
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fmt.Errorf("%w: choose another name, or replace it with --force", err)
}
