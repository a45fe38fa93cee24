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

// New makes root the root command of subcommands. Without a subcommand it prints its help, unless
// it is a [Group]. New adds what all programs have: --version, and the subcommands completion, help
// and version.
func New(root *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	// cobra adds the global flags to every command. Packages of Kubernetes register some.
	pflag.CommandLine = pflag.NewFlagSet(root.Name(), pflag.ContinueOnError)
	if root.RunE == nil {
		root.Args = func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return UnknownCommand(cmd, args[0])
			}
			return nil
		}
		root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	root.Version = VersionLine(root.Name())
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	root.SilenceUsage, root.SilenceErrors = true, true // Main prints errors
	root.SuggestionsMinimumDistance = 2
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return Usagef("%w", flagError(err)) })
	root.SetHelpCommand(newHelp(root))
	root.SetUsageFunc(printUsage)
	root.AddCommand(subcommands...)
	root.AddCommand(newVersion(root.Name()))
	return addCompletion(root)
}

// Group makes cmd a command that only has subcommands. An error lists them in the given order.
func Group(cmd *cobra.Command, subcommands ...*cobra.Command) *cobra.Command {
	var names []string
	for _, sub := range subcommands {
		names = append(names, sub.Name())
	}
	last := len(names) - 1
	cmd.Args, cmd.SuggestionsMinimumDistance = cobra.ArbitraryArgs, 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return UnknownCommand(cmd, args[0])
		}
		return Usagef("no command given: use %s or %s", strings.Join(names[:last], ", "), names[last])
	}
	cmd.AddCommand(subcommands...)
	return cmd
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
	if cmd.HasParent() {
		fmt.Fprintf(&b, "  %s %s%s\n", cmd.Parent().CommandPath(), cmd.Use, flagsOf(cmd))
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		root := cmd.Root()
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.ReplaceAll(cmd.Example, "  "+root.Name()+" ", "  "+root.CommandPath()+" "))
	}
	commands := slices.DeleteFunc(slices.Clone(cmd.Commands()), func(sub *cobra.Command) bool { return sub.Hidden })
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

// flagsOf returns " [flags]" if cmd has flags that its Use does not show.
func flagsOf(cmd *cobra.Command) (text string) {
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !strings.ContainsAny(cmd.Use, "[-") {
			text = " [flags]"
		}
	})
	return text
}

// newHelp returns cobra's help command, except that an unknown command is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		ValidArgsFunction: CompleteFirst(func(context.Context) (names []string) {
			for _, command := range root.Commands() {
				names = append(names, command.Name())
			}
			return names
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return UnknownCommand(root, args[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}
