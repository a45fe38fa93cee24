// Package frame is the frame of Pinfold's programs: the root command, exit statuses, flags, output,
// progress, completion and version. A program is
//
//	func main() {
//		frame.Main(ctx, frame.New(&cobra.Command{Use: "pinfold-agent", Short: "..."}, newRun(), newDoctor()), os.Args[1:])
//	}
//
// and a subcommand is a function that returns a [cobra.Command]:
//
//	var cpus int
//	frame.Var(cmd.Flags(), &cpus, "cpus", "N", "how many CPUs", frame.ParseCount)
//	output := frame.OutputFlag(cmd)
//
// Results go to standard output, messages to standard error. The exit status is 0 on success, 2
// after wrong usage ([Usagef]), that of an [ExitError], and 1 after other errors.
package frame

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// New makes root a [Group] of subcommands, and adds what all programs have: --version, and the
// subcommands completion, help and version.
func New(root *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	// cobra adds the global flags to every command. Packages of Kubernetes register some.
	pflag.CommandLine = pflag.NewFlagSet(root.Name(), pflag.ContinueOnError)
	Group(root, subcommands...)
	// Not root.Version: its template makes the linker keep all exported methods of all types.
	version, help := root.Flags().Bool("version", false, "print the version"), root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if *version {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), VersionLine(root.Name()))
			return err
		}
		return help(cmd, args)
	}
	root.SilenceUsage, root.SilenceErrors = true, true // Main prints errors
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usagef("%w", flagError(err)) })
	root.SetHelpCommand(newHelp(root))
	root.SetUsageFunc(printUsage)
	root.AddCommand(NewVersion(root.Name()))
	return addCompletion(root)
}

// Group makes cmd a command that only has subcommands. By itself it prints its help.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	cmd.Use = cmd.Name() + " COMMAND [flags]"
	cmd.SuggestionsMinimumDistance = 2
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return UnknownCommand(cmd, args[0])
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.AddCommand(subcommands...)
	return cmd
}

// Lead puts subcommands first in the help of cmd, in this order, under the question that they answer.
func Lead(cmd *cobra.Command, question string, names ...string) {
	cmd.AddGroup(&cobra.Group{ID: strings.Join(names, " "), Title: question})
}

// Main executes a command line, prints its error, and ends the process.
func Main(ctx context.Context, root *cobra.Command, args []string) {
	err := Run(ctx, root, args, os.Stdin, os.Stdout, os.Stderr)
	if err != nil && err.Error() != "" {
		fmt.Fprintf(os.Stderr, "%s: %s\n", root.Name(), Printable(err.Error()))
	}
	os.Exit(ExitStatus(err))
}

// Run executes a command line, given without the program's name.
func Run(ctx context.Context, root *cobra.Command, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if isUsage(err) {
		return fmt.Errorf("%w\nsee '%s --help'", err, cmd.CommandPath())
	}
	return err
}

// Interruptible returns a context that ctrl-C, SIGTERM and SIGHUP cancel, until stop is called.
func Interruptible(ctx context.Context) (interruptible context.Context, stop context.CancelFunc) {
	return signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
}

// printUsage prints how a command is called, 80 columns wide, or 100 if the names of flags need
// much of that.
func printUsage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	for line := range strings.Lines(cmd.Use) {
		fmt.Fprintf(&b, "  %s%s\n", cmd.CommandPath(), strings.TrimPrefix(strings.TrimSuffix(line, "\n"), cmd.Name()))
	}
	if cmd.HasExample() {
		root := cmd.Root()
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.ReplaceAll(cmd.Example, "  "+root.Name()+" ", "  "+root.CommandPath()+" "))
	}
	commands := slices.DeleteFunc(slices.Clone(cmd.Commands()), func(sub *cobra.Command) bool { return sub.Hidden })
	for _, group := range cmd.Groups() {
		fmt.Fprintf(&b, "\n%s\n", group.Title)
		for name := range strings.FieldsSeq(group.ID) {
			commands = slices.DeleteFunc(commands, func(sub *cobra.Command) bool {
				if sub.Name() == name {
					fmt.Fprintf(&b, "  %-10s %s\n", name, sub.Short)
				}
				return sub.Name() == name
			})
		}
	}
	if len(commands) > 0 {
		b.WriteString("\nCommands:\n")
	}
	for _, sub := range commands {
		fmt.Fprintf(&b, "  %-10s %s\n", sub.Name(), sub.Short)
	}
	columns := 80
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if kind, _ := pflag.UnquoteUsage(f); len(f.Name)+len(kind) > 30 {
			columns = 100
		}
	})
	fmt.Fprintf(&b, "\nFlags:\n%s", cmd.LocalFlags().FlagUsagesWrapped(columns))
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

// newHelp returns cobra's help command, except that an unknown command is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND...]",
		Short:   "Show the help of a command",
		Long:    "Show what a command does, how it is called, and its flags, as --help does.",
		Example: "  " + root.Name() + " help version",
		ValidArgsFunction: CompleteFirst(func(context.Context) (names []string) {
			for _, command := range root.Commands() {
				names = append(names, command.Name())
			}
			return names
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return UnknownCommand(about, append(rest, args...)[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
