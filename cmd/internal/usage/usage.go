// Package usage reports command-line usage errors and defines the exit status of commands: 0 on
// success, 1 on failure, 2 on wrong usage ([ExitStatus]).
package usage

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/internal/version"
)

// mistake is an error of the user on the command line.
type mistake struct{ error }

func (m mistake) Unwrap() error { return m.error }

// Errorf is [fmt.Errorf] for wrong usage.
func Errorf(format string, args ...any) error {
	return mistake{fmt.Errorf(format, args...)}
}

// ExitStatus returns 0 for success, 2 for wrong usage, and 1 for other errors.
func ExitStatus(err error) int {
	var wrong mistake
	switch {
	case err == nil:
		return 0
	case errors.As(err, &wrong):
		return 2
	default:
		return 1
	}
}

// Complete makes root the root command of others: without a subcommand it prints its help, and
// --version prints the version. Wrong flags of any command are errors of [Errorf]. main prints
// errors.
func Complete(root *cobra.Command, others ...*cobra.Command) *cobra.Command {
	root.Args = NoArguments
	root.Version = version.Of(root.Name())
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	root.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	root.SilenceUsage, root.SilenceErrors = true, true
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return Errorf("%w; see %s --help", FlagError(err), command.CommandPath())
	})
	root.AddCommand(others...)
	return root
}

// FlagError puts an error about the value of a flag into the user's words: the standard types quote
// the parser of their language.
func FlagError(err error) error {
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

// KubeconfigError is an error about a kubeconfig without the words of its parser.
func KubeconfigError(err error) error {
	file, text, ok := strings.Cut(strings.TrimPrefix(err.Error(), "error loading config file "), ": ")
	if ok && (strings.Contains(text, "yaml: ") || strings.Contains(text, "json")) {
		return fmt.Errorf("read the kubeconfig: %s is not a kubeconfig, or is damaged", file)
	}
	return fmt.Errorf("read the kubeconfig: %w", err)
}

// NoArguments rejects arguments.
func NoArguments(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return Errorf("%s does not know what to do with %q; see %s --help", command.CommandPath(), args[0], command.CommandPath())
}
