package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/lab/experiment"
	"pinfold.dev/pinfold/lab/findings"
	"pinfold.dev/pinfold/lab/measure"
)

// newRun returns the command that runs experiments.
func newRun() *cobra.Command {
	var (
		config, output string
		until          string
		options        measure.Options
	)
	command := &cobra.Command{
		Use:   "run NAME... [flags]\nrun --config FILE [flags]",
		Short: "Run experiments",
		Long: `Run experiments, one after the other, and print what they have measured. "all"
runs all of them.

Each run writes a directory OUTPUT/NAME-TIME, from which 'pinfold-lab report'
makes a page. What was measured is kept if the run is ended.

"--until concluded" looks after each round whether there is an answer to
everything that an experiment asks, and ends as soon as there is one. Its
intervals are wider, so that it is right as often as a run of fixed length.`,
		Example: `  pinfold-lab run burst --quick
  pinfold-lab run burst --until concluded --budget 20m
  pinfold-lab run --config mine.yaml -o mine`,
		ValidArgs: append(measure.Names(), "all"),
		RunE: func(command *cobra.Command, args []string) error {
			configs, err := chosen(args, config)
			if err != nil {
				return err
			}
			switch {
			case options.Rounds < 0:
				return frame.Usagef("--repetitions must not be negative")
			case until != "" && until != concluded:
				return frame.Usagef("--until %q: want %q", until, concluded)
			case until != "" && options.Rounds > 0:
				return frame.Usagef("give --repetitions, or --until, not both")
			case until == "" && command.Flags().Changed("budget"):
				return frame.Usagef("--budget needs --until %s", concluded)
			case until != "" && options.Budget <= 0:
				return frame.Usagef("--budget must be more than 0s")
			case until == "":
				options.Budget = 0
			}
			executable, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the programs of the experiment: %w", err)
			}
			options.Workload = func(args ...string) []string { return append([]string{executable, "workload"}, args...) }
			options.Version = frame.Version().Version
			options.Progress = func(message string) { fmt.Fprintln(command.ErrOrStderr(), message) }
			for _, c := range configs {
				options.Dir = filepath.Join(output, c.Name+time.Now().Format("-20060102-150405"))
				options.Command = repeat(command.Flags(), c.Name)
				err := measure.Run(command.Context(), c, options)
				if errors.Is(err, measure.ErrTooSmall) && len(configs) > 1 {
					options.Progress("left out: " + err.Error())
					continue
				}
				if _, statErr := os.Stat(options.Dir); statErr != nil {
					return err
				}
				if err := errors.Join(err, conclude(command.OutOrStdout(), options.Dir)); err != nil {
					return err
				}
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&config, "config", "", "run the experiment in this `FILE` (YAML)")
	frame.CompleteExtensions(command, "config", "yaml", "yml")
	flags.IntVar(&options.Rounds, "repetitions", 0, "`NUMBER` of rounds; 0: as the experiment says")
	flags.StringVar(&until, "until", "", "`STATE` in which an experiment ends: concluded")
	frame.CompleteWords(command, "until", concluded)
	flags.DurationVar(&options.Budget, "budget", 30*time.Minute, "`TIME` that each experiment may take with --until")
	flags.BoolVar(&options.BuiltIn, "built-in", false, "use built-in programs, even where others are installed")
	flags.BoolVar(&options.Quick, "quick", false, "fewer and shorter windows, for a first impression")
	flags.StringVarP(&output, "output", "o", "lab-results", "`DIR` in which each run makes its own")
	return command
}

// repeat returns the command line that repeats one of the experiments.
func repeat(flags *pflag.FlagSet, name string) string {
	words := []string{"pinfold-lab run"}
	if !flags.Changed("config") {
		words = append(words, name)
	}
	flags.Visit(func(f *pflag.Flag) {
		switch value := f.Value.String(); {
		case f.Name == "output":
		case f.Name == "config":
			words = append(words, "--config "+filepath.Base(value))
		case value == "true":
			words = append(words, "--"+f.Name)
		default:
			words = append(words, "--"+f.Name+" "+value)
		}
	})
	return strings.Join(words, " ")
}

// concluded is the only value of --until.
const concluded = "concluded"

// conclude prints what a run has measured, and writes its report.
func conclude(w io.Writer, dir string) error {
	run, err := open(dir)
	if err != nil {
		return err
	}
	run = findings.Prepare([]findings.Run{run})[0]
	if err := findings.Summary(w, run); err != nil {
		return err
	}
	if err := write(dir, []findings.Run{run}); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nReport: %s\n\n", filepath.Join(dir, page))
	return err
}

// chosen returns the experiments that the command line names.
func chosen(names []string, file string) ([]experiment.Config, error) {
	switch {
	case file != "" && len(names) > 0:
		return nil, frame.Usagef("give the NAME of an experiment, or --config, not both")
	case file != "":
		c, err := measure.Load(file)
		return []experiment.Config{c}, err
	case len(names) == 0:
		return nil, frame.Usagef("give the NAME of an experiment: 'pinfold-lab list' lists them")
	case len(names) == 1 && names[0] == "all":
		names = measure.Names()
	}
	var configs []experiment.Config
	for _, name := range names {
		c, err := measure.Named(name)
		if err != nil {
			return nil, frame.Usagef("%v", err)
		}
		configs = append(configs, c)
	}
	return configs, nil
}
