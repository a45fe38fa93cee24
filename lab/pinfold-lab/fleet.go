package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/lab/judge"
	"pinfold.dev/pinfold/tracefile"
)

// newFleet returns the command that records many programs.
func newFleet() *cobra.Command {
	var (
		output tracefile.Output
		length time.Duration
		seed   uint64
	)
	command := &cobra.Command{
		Use:   "fleet [flags]",
		Short: "Record the demand of many programs, to judge verdicts by",
		Long: `Record Apache httpd, nginx, services in Go, in Python and on a JVM, and builds
with make, each under six kinds of load: their CPU time in each period of
100 ms, without a limit. Six run at the same time, six times after each other.`,
		Example: `  pinfold-lab fleet -o fleet.parquet`,
		Args:    frame.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if length < time.Minute {
				return frame.Usagef("--length %v: it must be 1m or more", length)
			}
			if err := tracefile.Taken(output.Name, output.Replace); err != nil {
				return frame.SuggestForce(err)
			}
			options := judge.Options{Progress: func(message string) { fmt.Fprintln(command.ErrOrStderr(), message) }}
			if _, err := findWorkloads(&options); err != nil {
				return err
			}
			return judge.Fleet(command.Context(), options, output, length, seed)
		},
	}
	flags := command.Flags()
	flags.StringVarP(&output.Name, "output", "o", "fleet.parquet", "write the recording to `FILE`")
	flags.BoolVar(&output.Replace, "force", false, "replace FILE if it exists")
	flags.DurationVar(&length, "length", 10*time.Minute, "`TIME` of each recording")
	flags.Uint64Var(&seed, "seed", 0, "the times of requests have the seed `S`")
	return command
}
