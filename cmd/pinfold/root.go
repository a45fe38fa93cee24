package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/version"
)

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "pinfold",
		Short: "Choose the right CPUs on a machine, and see why",
		Long: `pinfold shows the CPU topology of a machine, chooses CPUs on it by the same rules
as the scheduler plugin, and runs commands with CPUs, limit and burst of their own.
It records what control groups use, period by period, shows how containers use
their limits, and are throttled, and computes what limits and burst would do.
Nothing else on the machine changes.`,
		Example: `  pinfold topology                    # a map of this machine
  pinfold place --sysfs /sys --cpus 4 # the best 4 CPUs of this machine
  pinfold run --cpus 4 -- make        # a command on them
  pinfold sample /kubepods/burstable  # what limit does it need?
  pinfold top                         # containers, their limits and throttling
  pinfold advise web.parquet          # and which burst? why?
  pinfold simulate --trace web.parquet --cgroups 10 --cpus 4 # is burst safe?`,
		Version:                    version.Of("pinfold"),
		Args:                       cobra.ArbitraryArgs, // unknown commands get a message of ours
		DisableFlagsInUseLine:      true,
		SilenceErrors:              true,
		SilenceUsage:               true,
		SuggestionsMinimumDistance: 2,
		CompletionOptions:          cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.RunE = asked(func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return &wrongUsage{"no command given: use topology, place, run, sample, top, trace, simulate, throttle, advise or version"}
		}
		return unknownCommand(cmd, args[0])
	})
	root.AddCommand(newTopology(), newPlace(), newRun(), newSample(), newTop(), newTrace(), newSimulate(), newThrottle(), newAdvise(), newVersion())
	root.SetVersionTemplate("{{.Version}}\n")
	root.Flags().Bool("version", false, "say which pinfold this is")
	root.SetHelpCommand(newHelp(root))
	root.SetUsageFunc(usage)
	return root
}

// usage prints how a command is called, on 80 columns.
func usage(cmd *cobra.Command) error {
	var b strings.Builder
	use := cmd.UseLine()
	switch {
	case cmd.HasAvailableSubCommands() && !cmd.HasParent():
		use += " COMMAND [flags]"
	case cmd.HasAvailableSubCommands():
		use += "\n  " + cmd.CommandPath() + " COMMAND [flags]"
	}
	fmt.Fprintf(&b, "Usage:\n  %s\n", use)
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
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

func unknownCommand(root *cobra.Command, name string) error {
	message := fmt.Sprintf("unknown command %q", name)
	if like := root.SuggestionsFor(name); len(like) > 0 {
		message += fmt.Sprintf(", did you mean %q?", like[0])
	}
	return &wrongUsage{message}
}

// newHelp is cobra's help command, except that an unknown command is an error.
func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:                   "help [COMMAND]",
		Short:                 "Show the help of a command",
		DisableFlagsInUseLine: true,
		RunE: asked(func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(root, args[0])
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		}),
	}
}

// asked makes errors of f failures, unless f says that the question was wrong.
// Whatever cobra finds before it calls f is wrong usage.
func asked(f func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		var wrong *wrongUsage
		if err == nil || errors.As(err, &wrong) {
			return err
		}
		return &failure{err}
	}
}

// noArguments is cobra.NoArgs with a message that says what to do.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%q is one argument too many: %s takes flags only", args[0], cmd.CommandPath())
	}
	return nil
}

// noCommand is noArguments for a command that has others below it.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && len(cmd.SuggestionsFor(args[0])) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return noArguments(cmd, args)
}

// choice is a flag that takes one of a few words, the first one by default.
type choice struct {
	words []string
	value string
}

func oneOf(words ...string) *choice { return &choice{words: words, value: words[0]} }

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.words, "|") }
func (c *choice) Set(text string) error {
	if !slices.Contains(c.words, text) {
		return fmt.Errorf("must be %s", strings.Join(c.words, " or "))
	}
	c.value = text
	return nil
}

// count is a flag that takes a number of at least 1; 0 means that it was not given.
type count int

func (c *count) String() string { return strconv.Itoa(int(*c)) }
func (c *count) Type() string   { return "N" }
func (c *count) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return errors.New("must be a whole number, 1 or more")
	}
	*c = count(n)
	return nil
}

// The words of -o.
const (
	outText = "text"
	outJSON = "json"
)

// outputFlag adds -o to a command.
func outputFlag(cmd *cobra.Command) *choice {
	output := oneOf(outText, outJSON)
	cmd.Flags().VarP(output, "output", "o", "how to print the result")
	return output
}
