package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/lab/colocation"
)

func newColocation() *cobra.Command {
	config := colocation.Config{Conditions: colocation.Conditions(), Threads: 4 * runtime.NumCPU(), Repeated: 3}
	online, foreign, output := 0.3, 0.02, ""
	command := &cobra.Command{
		Use:   "colocation",
		Short: "What batch work costs an online service",
		Args:  usage.NoArguments,
		RunE: func(command *cobra.Command, _ []string) error {
			config.Online, config.Foreign = quantity.Share(online), quantity.Share(foreign)
			if err := config.Check(); err != nil {
				return usage.Errorf("%v", err)
			}
			executable, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find the programs of the experiment: %w", err)
			}
			config.Workload = func(args ...string) []string { return append([]string{executable, "workload"}, args...) }
			config.Progress = func(message string) { fmt.Fprintln(command.ErrOrStderr(), message) }
			result, err := colocation.Run(command.Context(), config)
			if len(result.Windows) == 0 {
				return err
			}
			if output != "" {
				err = errors.Join(err, write(output, result))
			}
			return errors.Join(err, result.WriteTable(command.OutOrStdout()))
		},
	}
	flags := command.Flags()
	flags.StringVarP(&output, "output", "o", "", "write what was measured to this `FILE`, as lines of JSON")
	flags.IntVar(&config.Rounds, "rounds", 80, "`NUMBER` of rounds, with one window of each condition")
	flags.DurationVar(&config.Window, "window", 2*time.Second, "duration of a window")
	flags.DurationVar(&config.Settle, "settle", time.Second/2, "from a change of conditions to the window")
	flags.Float64Var(&online, "online", online, "`SHARE` of the CPUs that the service uses")
	flags.IntVar(&config.Hash, "hash", 1<<20, "`BYTES` that the service hashes for each request")
	flags.IntVar(&config.Threads, "threads", config.Threads, "`NUMBER` of threads of batch work")
	flags.Float64Var(&foreign, "foreign", foreign, "a window in which others use more than this `SHARE` of the CPUs is not used")
	flags.Uint64Var(&config.Seed, "seed", 1, "`NUMBER` that determines the order of conditions and the times of requests")
	return command
}

func write(name string, result colocation.Result) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return atomicfile.WriteFunc(name, atomicfile.Options{}, func(f *os.File) error { return result.Write(f) })
}

// newReport returns the command that prints the table of an earlier run.
func newReport() *cobra.Command {
	return &cobra.Command{
		Use:   "report FILE",
		Short: "Print the table of an earlier run",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage.Errorf("give one FILE, as pinfold-lab run has written it with --output")
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("read a result: %w", err)
			}
			defer file.Close()
			result, err := colocation.Read(file)
			if err != nil {
				return fmt.Errorf("read %s, which pinfold-lab run has not written: %w", args[0], err)
			}
			return result.WriteTable(command.OutOrStdout())
		},
	}
}
