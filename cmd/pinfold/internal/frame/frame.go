// Package frame contains what the subcommands of pinfold share: flags, checks of arguments, output,
// progress and exit statuses. A subcommand is a function that returns a [cobra.Command]:
//
//	var cpus int
//	frame.Var(cmd.Flags(), &cpus, "cpus", "N", "how many CPUs", frame.ParseCount)
//	output := frame.OutputFlag(cmd)
//
// Its errors are failures (exit status 1), except those of [usage.Errorf] (status 2) and [Exit].
package frame

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/report"
)

// Exit is an error with an exit status of its own. Without Err nothing is printed.
type Exit struct {
	Status int
	Err    error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// ExitStatus returns the status of an [Exit], and that of [usage.ExitStatus] for other errors.
func ExitStatus(err error) int {
	if own := (*Exit)(nil); errors.As(err, &own) {
		return own.Status
	}
	return usage.ExitStatus(err)
}

// UnknownCommand returns an error that names the most similar subcommand, if there is one.
func UnknownCommand(cmd *cobra.Command, name string) error {
	message := fmt.Sprintf("unknown command %q", name)
	if similar := cmd.SuggestionsFor(name); len(similar) > 0 {
		message += fmt.Sprintf(", did you mean %q?", similar[0])
	}
	return usage.Errorf("%s", message)
}

// NoArguments rejects arguments, and suggests subcommands with similar names.
func NoArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case len(cmd.SuggestionsFor(args[0])) > 0:
		return UnknownCommand(cmd, args[0])
	}
	return usage.Errorf("%q is one argument too many: %s takes flags only", args[0], cmd.CommandPath())
}

// Interruptible returns a context that ctrl-C, SIGTERM and SIGHUP cancel, until stop is called.
func Interruptible(ctx context.Context) (interruptible context.Context, stop context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

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
