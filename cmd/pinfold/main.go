// Command pinfold shows the CPU topology of machines, chooses CPUs, runs commands with CPU
// settings, shows and records the CPU usage of cgroups, explains why they are slow, computes the
// effect of limits and burst, and shows the state of a cluster. Its manuals are docs/pinfold.md and
// docs/status.md.
//
// The command changes nothing on the machine, except files that it is asked to write and the
// cgroups in which "pinfold run" runs a command. Only "pinfold status" uses the network: it reads
// from an API server. Results go to standard output, messages to standard error. The exit status is
// 0 on success, 1 on failure, and 2 on wrong usage. "pinfold run" exits with the status of its
// command.
//
// Under the name kubectl-pinfold it is a plugin of kubectl, "kubectl pinfold". Under the name
// kubectl_complete-pinfold it completes the plugin's command line, as kubectl asks it to.
//
// Each group of subcommands is a package: internal/place, internal/record, internal/groups,
// internal/why, internal/model, internal/run, internal/top and internal/status. This package
// assembles them; internal/frame contains what they share.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/completion"
	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/cmd/internal/version"
	"pinfold.dev/pinfold/cmd/pinfold/internal/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/model"
	"pinfold.dev/pinfold/cmd/pinfold/internal/place"
	"pinfold.dev/pinfold/cmd/pinfold/internal/record"
	"pinfold.dev/pinfold/cmd/pinfold/internal/status"
)

const runName = "run"

func main() {
	if status, ok := runHelper(os.Args[1:]); ok {
		os.Exit(status)
	}
	name, args := calledAs(os.Args)
	err := run(context.Background(), name, args, os.Stdin, os.Stdout, os.Stderr)
	if err != nil && err.Error() != "" {
		frame.Notef(os.Stderr, "%v", err)
	}
	os.Exit(frame.ExitStatus(err))
}

// The names of the executable as a plugin of kubectl, and as what completes its command line.
const (
	pluginFile   = "kubectl-pinfold"
	completeFile = "kubectl_complete-pinfold"
)

// calledAs returns the name by which the user calls the command, and its arguments.
func calledAs(argv []string) (name string, args []string) {
	switch filepath.Base(argv[0]) {
	case pluginFile:
		return "kubectl pinfold", argv[1:]
	case completeFile:
		return "kubectl pinfold", append([]string{cobra.ShellCompRequestCmd}, argv[1:]...)
	}
	return "pinfold", argv[1:]
}

// run executes one command line. name is that of the command in help and messages.
func run(ctx context.Context, name string, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	root := newRoot(name)
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(ctx)
	if usage.ExitStatus(err) == 2 {
		err = fmt.Errorf("%w\nsee '%s --help'", err, command.CommandPath())
	}
	if command.Name() == runName {
		return runExitStatus(err)
	}
	return err
}

func newRoot(name string) *cobra.Command {
	root := &cobra.Command{
		Use:         "pinfold",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: name},
		Short:       "Choose the right CPUs on a machine, and see why",
		Long: `pinfold shows the CPU topology of a machine, chooses CPUs on it by the same rules
as the scheduler plugin, and runs commands with CPUs, limit and burst of their own.
It records what control groups use, period by period, shows how containers use
their limits and are throttled, and computes what limits and burst would do.
It shows the state of Pinfold in a cluster. It changes nothing else.`,
		Example: `  pinfold topology                    # a map of this machine
  pinfold place --sysfs /sys --cpus 4 # the best 4 CPUs of this machine
  pinfold run --cpus 4 -- make        # a command on them
  pinfold sample /kubepods/burstable  # what limit does it need?
  pinfold top                         # containers, their limits and throttling
  pinfold advise web.parquet          # and which burst? why?
  pinfold simulate --trace web.parquet --cgroups 10 --cpus 4 # is burst safe?
  pinfold status                      # what is wrong in the cluster?`,
		Version:                    version.Of("pinfold"),
		Args:                       cobra.ArbitraryArgs, // RunE reports unknown commands
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage.Errorf("no command given: use topology, place, run, sample, top, trace, simulate, throttle, advise, status or version")
		}
		return frame.UnknownCommand(cmd, args[0])
	}
	root.AddCommand(linuxCommands()...)
	root.AddCommand(place.NewTopology(), place.NewPlace(), record.NewTrace(), model.NewSimulate(), model.NewThrottle(), model.NewAdvise(),
		status.New(), newVersion())
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usage.Errorf("%w", usage.FlagError(err)) })
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "print the version")
	root.SetHelpCommand(newHelp(root))
	root.SetUsageFunc(printUsage)
	return completion.Install(root)
}

// printUsage prints how a command is called, 80 columns wide.
func printUsage(cmd *cobra.Command) error {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.HasParent() {
		fmt.Fprintf(&b, "  %s %s\n", cmd.Parent().CommandPath(), cmd.Use)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", strings.ReplaceAll(cmd.Example, "  pinfold ", "  "+cmd.Root().CommandPath()+" "))
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
	}
	for _, sub := range cmd.Commands() {
		fmt.Fprintf(&b, "  %-10s %s\n", sub.Name(), sub.Short)
	}
	fmt.Fprintf(&b, "\nFlags:\n%s", cmd.LocalFlags().FlagUsagesWrapped(80))
	_, err := io.WriteString(cmd.OutOrStdout(), b.String())
	return err
}

// newHelp returns cobra's help command, except that an unknown command is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show the help of a command",
		ValidArgsFunction: completion.First(func(context.Context) (names []string) {
			for _, command := range root.Commands() {
				names = append(names, command.Name())
			}
			return names
		}),
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return frame.UnknownCommand(root, args[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version [-o text|json]",
		Short: "Print the version",
		Args:  frame.NoArguments,
	}
	output := frame.OutputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *output == frame.JSON {
			return frame.PrintJSON(cmd.OutOrStdout(), version.This())
		}
		_, err := fmt.Fprintln(cmd.OutOrStdout(), version.Of("pinfold"))
		return err
	}
	return cmd
}
