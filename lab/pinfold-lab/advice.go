package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/lab/judge"
)

// newAdvice returns the command that tries advice.
func newAdvice() *cobra.Command {
	var (
		options = judge.Options{Size: judge.Full()}
		only    string
		quick   bool
	)
	command := &cobra.Command{
		Use:   "advice [flags]",
		Short: "Try the advice of pinfold, and count how often it is right",
		Long: `Record programs of five kinds, with and without a limit, on an idle and on a
busy machine; set the limit that 'pinfold advise' recommends; and compare the
share of throttled periods with what was predicted. It takes about four hours,
and needs a machine that is idle.

It prints a table, and writes it to DIR with everything that was measured. If it
is ended, the same command continues.`,
		Example: `  pinfold-lab advice
  pinfold-lab advice --quick --only '^python/' -o quick`,
		Args: frame.NoArguments,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if err := setQuick(command, quick); err != nil {
				return err
			}
			if err := options.Size.Check(); err != nil {
				return frame.Usagef("%w", err)
			}
			if options.Only, err = regexp.Compile(only); err != nil {
				return frame.Usagef("--only: %w", err)
			}
			if err := findPrograms(&options); err != nil {
				return err
			}
			options.Progress = func(message string) { fmt.Fprintln(command.ErrOrStderr(), message) }
			if err := judge.Measure(command.Context(), options); err != nil {
				return err
			}
			results, err := judge.Open(options.Dir)
			if err != nil {
				return err
			}
			return results.Markdown(command.OutOrStdout())
		},
	}
	flags := command.Flags()
	flags.StringVarP(&options.Dir, "output", "o", "advice-results", "`DIR` of the results")
	flags.StringVar(&options.Pinfold, "pinfold", "", "the pinfold `PROGRAM`; the one beside this program if empty")
	flags.StringVar(&only, "only", "", "only recordings whose name, such as python/limit/crowd or go/free/idle, matches the `PATTERN`")
	flags.BoolVar(&quick, "quick", false, "short recordings and one run, to see that it works")
	flags.DurationVar(&options.Size.Record, "record", options.Size.Record, "`TIME` of each recording")
	flags.DurationVar(&options.Size.Apply, "apply", options.Size.Apply, "`TIME` of each run under an advised limit")
	flags.IntVar(&options.Size.Runs, "runs", options.Size.Runs, "`NUMBER` of such runs in each condition")
	frame.ShareVar(flags, &options.Size.Throttled, 1, "throttled", "the share of periods that may be throttled")
	flags.DurationVar(&options.Size.Patience, "patience", options.Size.Patience, "`TIME` to wait for an idle machine and to repeat, in all")
	return command
}

// setQuick sets the flags of the size that were not given to those of a quick run.
func setQuick(command *cobra.Command, quick bool) error {
	if !quick {
		return nil
	}
	q, flags := judge.Quick(), command.Flags()
	for name, value := range map[string]any{"record": q.Record, "apply": q.Apply, "runs": q.Runs, "throttled": q.Throttled, "patience": q.Patience} {
		if flags.Changed(name) {
			continue
		}
		if err := flags.Set(name, fmt.Sprint(value)); err != nil {
			return err
		}
	}
	return nil
}

// findPrograms finds this program and pinfold.
func findPrograms(o *judge.Options) error {
	executable, err := findWorkloads(o)
	if err != nil {
		return err
	}
	if o.Pinfold == "" {
		o.Pinfold = filepath.Join(filepath.Dir(executable), "pinfold")
	}
	if o.Pinfold, err = exec.LookPath(o.Pinfold); err != nil {
		return fmt.Errorf("%w: name the program with --pinfold", err)
	}
	return nil
}

// findWorkloads finds this program, which has the built-in ones.
func findWorkloads(o *judge.Options) (executable string, err error) {
	if executable, err = os.Executable(); err != nil {
		return "", fmt.Errorf("find the programs of the experiment: %w", err)
	}
	o.Workload = func(args ...string) []string { return append([]string{executable, "workload"}, args...) }
	o.Command, o.Version = os.Args, frame.Version().Version
	return executable, nil
}
