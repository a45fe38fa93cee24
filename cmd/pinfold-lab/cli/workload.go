package cli

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/lab/workload"
)

// newWorkload returns the commands that experiments start as processes of their own. Each prints a
// line when it is ready.
func newWorkload() *cobra.Command {
	var (
		threads, digits int
		workers         int // of the web server
		compute, rest   time.Duration
		listen          string
		seed            uint64
		server          = workload.Server{Size: 615}
	)
	computes := func(command *cobra.Command, start func(*cobra.Command)) *cobra.Command {
		command.Flags().IntVar(&threads, "threads", 1, "`NUMBER` of threads")
		command.Args = usage.NoArguments
		command.RunE = func(command *cobra.Command, _ []string) error {
			if threads < 1 || digits < 1 || compute <= 0 || rest < 0 {
				return usage.Errorf("--threads and --digits must be 1 or more, and times not negative")
			}
			fmt.Fprintln(command.OutOrStdout(), "computing on", threads)
			start(command)
			return nil
		}
		return command
	}
	web := &cobra.Command{Use: "web", Short: "Serve web pages", Args: usage.NoArguments, RunE: func(command *cobra.Command, _ []string) error {
		if workers < 1 {
			return usage.Errorf("--threads must be 1 or more")
		}
		runtime.GOMAXPROCS(workers)
		return server.Serve(command.Context(), listen, command.OutOrStdout())
	}}
	web.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve on")
	web.Flags().StringVar(&server.Next, "next", "", "`URL` to call before each answer")
	web.Flags().IntVar(&server.Size, "size", server.Size, "`BYTES` of the page")
	web.Flags().IntVar(&workers, "threads", runtime.NumCPU(), "`NUMBER` of threads that compute at the same time")
	batch := computes(&cobra.Command{Use: "batch", Short: "Compute on several threads"}, func(command *cobra.Command) {
		workload.Batch(command.Context(), threads, command.OutOrStdout())
	})
	cycles := computes(&cobra.Command{Use: "cycles", Short: "Compute on several threads, and sleep, in turns"}, func(command *cobra.Command) {
		workload.Cycles(command.Context(), threads, compute, rest, command.OutOrStdout())
	})
	cycles.Flags().DurationVar(&compute, "compute", 200*time.Millisecond, "`TIME` to compute")
	cycles.Flags().DurationVar(&rest, "sleep", 2*time.Second, "`TIME` to sleep")
	demand := computes(&cobra.Command{Use: "demand", Short: "Compute for a random time in each period of 100 ms"}, func(command *cobra.Command) {
		workload.Demand(command.Context(), threads, compute, trace.DefaultPeriod, rand.New(rand.NewPCG(seed, 0)), command.OutOrStdout())
	})
	demand.Flags().DurationVar(&compute, "compute", 10*time.Millisecond, "mean `TIME` to compute, all threads together")
	demand.Flags().Uint64Var(&seed, "seed", 0, "`SEED` of the amounts")
	pi := computes(&cobra.Command{Use: "pi", Short: "Compute digits of pi"}, func(command *cobra.Command) {
		workload.TimePi(command.Context(), digits, threads, command.OutOrStdout())
	})
	pi.Flags().IntVar(&digits, "digits", 1000, "`NUMBER` of digits")
	command := &cobra.Command{Use: "workload", Short: "Run a program of an experiment", Hidden: true}
	command.AddCommand(web, batch, cycles, demand, pi)
	return command
}
