package main

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/lab/contention"
)

// newContention returns the command that judges the samples of who waits for CPUs.
func newContention() *cobra.Command {
	var options contention.Options
	output, score := "", ""
	command := &cobra.Command{
		Use:   "contention [flags]",
		Short: "Stage cases in which threads wait for CPUs, and judge what is sampled of them",
		Long: `Run programs that wait for each other, for their limits, or not at all, in cases
of twelve kinds; sample who waits behind whom, as the agent does; trace the same
time with every switch; and compare. With 200 cases it takes about 40 minutes.
Other load does not matter: it is in both.`,
		Example: `  pinfold-lab contention
  pinfold-lab contention --cases 20 --duration 5s
  pinfold-lab contention --score contention.json`,
		Args: frame.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			if options.Cases < 1 || options.Duration < time.Second {
				return frame.Usagef("--cases must be 1 or more, and --duration 1s or more")
			}
			var results contention.Results
			if score != "" {
				text, err := os.ReadFile(score)
				if err == nil {
					err = json.Unmarshal(text, &results)
				}
				if err != nil {
					return fmt.Errorf("--score %s: %w", score, err)
				}
				return results.Markdown(command.OutOrStdout())
			}
			executable, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the programs of the cases: %w", err)
			}
			options.Workload = func(args ...string) []string { return append([]string{executable, "workload"}, args...) }
			options.Command = append([]string{"pinfold-lab"}, os.Args[1:]...)
			options.Progress = func(message string) { fmt.Fprintln(command.ErrOrStderr(), message) }
			results, failed := contention.Measure(command.Context(), options)
			if len(results.Cases) == 0 {
				return failed
			}
			text, err := json.Marshal(results)
			if err == nil {
				err = atomicfile.Write(output, text, atomicfile.Options{Perm: 0o644})
			}
			if err == nil {
				err = results.Markdown(command.OutOrStdout())
			}
			if failed != nil {
				return failed
			}
			return err
		},
	}
	flags := command.Flags()
	flags.IntVar(&options.Cases, "cases", 200, "`NUMBER` of cases")
	flags.DurationVar(&options.Duration, "duration", 10*time.Second, "`TIME` that each is measured")
	flags.StringVarP(&output, "output", "o", "contention.json", "`FILE` of the results, replaced if it exists")
	flags.StringVar(&score, "score", "", "measure nothing, and print the table of the results in `FILE`")
	return command
}
