package frame

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// usageError is an error of the user on the command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// Usagef is [fmt.Errorf] for wrong usage.
func Usagef(format string, args ...any) error {
	return usageError{fmt.Errorf(format, args...)}
}

func isUsage(err error) bool {
	var wrong usageError
	return errors.As(err, &wrong)
}

// ExitError is an error with an exit status of its own. Without Err nothing is printed.
type ExitError struct {
	Status int
	Err    error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// ExitStatus returns the exit status for an error: see the package comment.
func ExitStatus(err error) int {
	var own *ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &own):
		return own.Status
	case isUsage(err):
		return 2
	}
	return 1
}

// UnknownCommand returns an error that names the most similar subcommand, if there is one.
func UnknownCommand(cmd *cobra.Command, name string) error {
	message := fmt.Sprintf("unknown command %q", name)
	if similar := cmd.SuggestionsFor(name); len(similar) > 0 {
		message += fmt.Sprintf(", did you mean %q?", similar[0])
	}
	return Usagef("%s", message)
}

// NoArguments rejects arguments, and suggests subcommands with similar names.
func NoArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case len(cmd.SuggestionsFor(args[0])) > 0:
		return UnknownCommand(cmd, args[0])
	}
	return Usagef("%q is one argument too many: %s takes flags only", args[0], cmd.CommandPath())
}

// flagError puts an error about the value of a flag into the user's words: the standard types quote
// the parser of their language.
func flagError(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag := invalid.GetFlag()
	want := ""
	switch kind := flag.Value.Type(); {
	case strings.HasPrefix(kind, "uint"):
		want = "a whole number, 0 or more"
	case strings.HasPrefix(kind, "int"), kind == "count":
		want = "a whole number"
	case strings.HasPrefix(kind, "float"):
		want = "a number such as 0.5"
	case kind == "duration":
		want = "a time with its unit, such as 10ms or 1m30s"
	case kind == "bool":
		want = "true or false"
	case strings.HasSuffix(kind, "Slice"):
		want = "values with commas between them, without quotes"
	default:
		return err // a type of this project
	}
	return fmt.Errorf("invalid argument %q for %q flag: must be %s", invalid.GetValue(), "--"+flag.Name, want)
}
