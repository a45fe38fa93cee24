package main

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/url"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/internal/atomicfile"
	"pinfold.dev/pinfold/lab/compute"
	"pinfold.dev/pinfold/local/load"
	"pinfold.dev/pinfold/local/workload"
	"pinfold.dev/pinfold/tracefile"
)

// newWorkload returns the commands that experiments start as processes of their own. Each prints a
// line when it is ready.
func newWorkload() *cobra.Command {
	var (
		threads, digits int
		workers         int // of the web server
		burst, rest     time.Duration
		listen          string
		seed            uint64
		server          = workload.Server{Size: 615}
	)
	computes := func(command *cobra.Command, start func(*cobra.Command)) *cobra.Command {
		command.Flags().IntVar(&threads, "threads", 1, "`NUMBER` of threads")
		command.Args = frame.NoArguments
		command.RunE = func(command *cobra.Command, _ []string) error {
			if threads < 1 || digits < 1 || burst <= 0 || rest < 0 {
				return frame.Usagef("--threads and --digits must be 1 or more, and times not negative")
			}
			fmt.Fprintln(command.OutOrStdout(), "computing on", threads)
			start(command)
			return nil
		}
		return command
	}
	web := &cobra.Command{Use: "web [flags]", Short: "Serve web pages", Long: "Serve pages of one size, each after computing for the time in ?cpu=.", Example: "  pinfold-lab workload web --listen 127.0.0.1:8080", Args: frame.NoArguments, RunE: func(command *cobra.Command, _ []string) error {
		if workers < 1 {
			return frame.Usagef("--threads must be 1 or more")
		}
		runtime.GOMAXPROCS(workers)
		return server.Serve(command.Context(), listen, command.OutOrStdout())
	}}
	web.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve on")
	web.Flags().StringVar(&server.Next, "next", "", "`URL` to call before each answer")
	web.Flags().IntVar(&server.Size, "size", server.Size, "`BYTES` of the page")
	web.Flags().IntVar(&workers, "threads", runtime.NumCPU(), "`NUMBER` of threads that compute at the same time")
	batch := computes(&cobra.Command{Use: "batch [flags]", Short: "Compute on several threads", Long: "Compute without end, and print how much was done.", Example: "  pinfold-lab workload batch --threads 4"}, func(command *cobra.Command) {
		compute.Batch(command.Context(), threads, command.OutOrStdout())
	})
	cycles := computes(&cobra.Command{Use: "cycles [flags]", Short: "Compute on several threads, and sleep, in turns", Long: "Compute on each thread for a time, sleep, and begin again.", Example: "  pinfold-lab workload cycles --compute 200ms --sleep 2s"}, func(command *cobra.Command) {
		compute.Cycles(command.Context(), threads, burst, rest, command.OutOrStdout())
	})
	cycles.Flags().DurationVar(&burst, "compute", 200*time.Millisecond, "`TIME` to compute")
	cycles.Flags().DurationVar(&rest, "sleep", 2*time.Second, "`TIME` to sleep")
	short := computes(&cobra.Command{Use: "threads [flags]", Short: "Compute in short-lived threads", Long: "Compute in threads that live for a time, one after the other in each row.", Example: "  pinfold-lab workload threads --compute 2ms"}, func(command *cobra.Command) {
		compute.Threads(command.Context(), threads, burst)
	})
	short.Flags().DurationVar(&burst, "compute", 2*time.Millisecond, "`TIME` that a thread lives")
	demand := computes(&cobra.Command{Use: "demand [flags]", Short: "Compute for a random time in each period of 100 ms", Long: "Compute in each period for a time of an exponential distribution.", Example: "  pinfold-lab workload demand --compute 10ms --seed 7"}, func(command *cobra.Command) {
		compute.Demand(command.Context(), threads, burst, trace.DefaultPeriod, rand.New(rand.NewPCG(seed, 0)), command.OutOrStdout())
	})
	demand.Flags().DurationVar(&burst, "compute", 10*time.Millisecond, "mean `TIME` to compute, all threads together")
	demand.Flags().Uint64Var(&seed, "seed", 0, "`SEED` of the amounts")
	project := ""
	builds := &cobra.Command{Use: "builds [flags]", Short: "Run make for each request", Long: "Serve requests for builds: /?n=3 compiles three parts of a project with make.", Example: "  pinfold-lab workload builds --project lab/programs/build", Args: frame.NoArguments, RunE: func(command *cobra.Command, _ []string) error {
		return compute.Builds(command.Context(), project, listen, command.OutOrStdout())
	}}
	builds.Flags().StringVar(&listen, "listen", "127.0.0.1:8080", "`ADDRESS` to serve on")
	builds.Flags().StringVar(&project, "project", ".", "`DIR` of the project, with a Makefile")
	pi := computes(&cobra.Command{Use: "pi [flags]", Short: "Compute digits of pi", Long: "Compute digits of pi on each thread, and print how long it took.", Example: "  pinfold-lab workload pi --digits 1000 --threads 4"}, func(command *cobra.Command) {
		compute.Pi(command.Context(), digits, threads, command.OutOrStdout())
	})
	pi.Flags().IntVar(&digits, "digits", 1000, "`NUMBER` of digits")
	return frame.Group(&cobra.Command{Use: "workload", Short: "Run a program of an experiment", Hidden: true,
		Long: "Run a program that experiments start.", Example: "  pinfold-lab workload batch"}, web, batch, builds, cycles, demand, pi, short, newRequests())
}

// newRequests returns the command that sends requests to a server, as experiments do, and logs
// them.
func newRequests() *cobra.Command {
	var cpu time.Duration
	var plan load.Plan
	var log tracefile.Output
	command := &cobra.Command{Use: "requests URL [flags]", Short: "Send requests, and print when each started and ended",
		Long:    "Send requests to a server, and print the start and the end of each as CSV, for\n'pinfold why --requests'.",
		Example: "  pinfold-lab workload requests http://127.0.0.1:8080 --output requests.csv", ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) != 1 {
				return frame.Usagef("%s needs the URL of a server", command.CommandPath())
			}
			if cpu < 0 {
				return frame.Usagef("a CPU time of %v: it must be 0 or more", cpu)
			}
			if err := plan.Check(); err != nil {
				return frame.Usagef("%w", err)
			}
			if err := tracefile.Taken(log.Name, log.Replace); err != nil {
				return frame.SuggestForce(err)
			}
			return sendRequests(command, args[0], cpu, plan, log)
		}}
	flags := command.Flags()
	flags.IntVar(&plan.Batch, "batch", 4, "`NUMBER` of requests sent at once")
	flags.DurationVar(&plan.Every, "every", 503*time.Millisecond, "`TIME` from one batch to the next")
	flags.DurationVar(&plan.Duration, "duration", 20*time.Second, "`TIME` in which batches are sent")
	flags.DurationVar(&plan.Timeout, "timeout", 10*time.Second, "`TIME` that a request may take")
	flags.DurationVar(&cpu, "cpu", 0, "CPU `TIME` that each request asks for with ?cpu=")
	flags.StringVarP(&log.Name, "output", "o", tracefile.Stdout, "write to `FILE`, - for standard output")
	flags.BoolVar(&log.Replace, "force", false, "replace the FILE of --output if it exists")
	return command
}

// sendRequests sends requests to a URL, to which it adds the CPU time of each, and logs them.
func sendRequests(command *cobra.Command, to string, cpu time.Duration, plan load.Plan, log tracefile.Output) error {
	address, err := url.Parse(to)
	if err != nil {
		return frame.Usagef("%w", err)
	}
	if cpu > 0 {
		query := address.Query()
		query.Set("cpu", cpu.String())
		address.RawQuery = query.Encode()
	}
	sender, err := load.NewHTTP(address.String())
	if err != nil {
		return err
	}
	defer sender.Close()
	result, err := load.Run(command.Context(), plan, sender.Send)
	messages := command.ErrOrStderr()
	fmt.Fprintf(messages, "%d requests, %d failed, mean latency %v\n", result.Sent, result.Failed(), result.Mean().Round(time.Microsecond))
	for _, failure := range slices.Sorted(maps.Keys(result.Failures)) {
		fmt.Fprintf(messages, "%d times: %s\n", result.Failures[failure], failure)
	}
	if err == nil && len(result.Answered) == 0 {
		err = fmt.Errorf("%s answered no request successfully", to)
	}
	if log.Name == tracefile.Stdout {
		return errors.Join(result.WriteRequests(command.OutOrStdout()), err)
	}
	write := func(f *os.File) error { return result.WriteRequests(f) }
	return errors.Join(frame.SuggestForce(atomicfile.WriteFunc(log.Name, atomicfile.Options{KeepOld: !log.Replace}, write)), err)
}
