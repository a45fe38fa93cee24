//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/confine"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use: `run [--cpus N [--full-cores preferred|required] | --cpuset LIST]
              [--limit CPUS [--burst PERCENT] [--period TIME]] [--idle]
              [--name NAME] [--wait] [-o text|json] [--stats-file FILE]
              -- COMMAND [ARG...]`,
		Short: "Run a command with CPUs, limit and burst of its own",
		Long: `Run a command in a control group of its own, and say at the end what it used
and how often it was throttled. The group is removed whatever happens. It takes
root, or a control group of your own (docs/pinfold.md says how).

The figures go to standard error, or to --stats-file. The exit status is the
command's; 128 and the signal's number when a signal ended it; 126 when it
cannot be executed, 127 when there is none, 125 when pinfold itself failed.

Processes that the command leaves behind are killed, unless --wait is given.`,
		Example: `  pinfold run --limit 0.5 --burst 100% -- ./server
  pinfold run --cpus 4 --full-cores required -- make -j4
  pinfold run --cpuset 0-3 --idle -o json --stats-file stats.json -- ./batch`,
		DisableFlagsInUseLine: true,
	}
	q := &confinement{limit: 0, period: 100 * time.Millisecond}
	f := cmd.Flags()
	f.SetInterspersed(false) // what follows the command is the command's
	f.Var(&q.cpus, "cpus", "run it on N CPUs, the best ones of those that no other run was given")
	f.Var(&q.cpuset, "cpuset", "run it on these CPUs, a list such as 0-3,8")
	q.fullCores = oneOf(string(placement.FullCoresPreferred), string(placement.FullCoresRequired))
	f.Var(q.fullCores, "full-cores", "whether whole cores are a wish or a condition; for --cpus")
	f.Var(&q.limit, "limit", "CPU time per time, such as 0.5, 500m or 4")
	f.Var(&q.burst, "burst", "unused quota to save up and use later, as a percentage of the quota: 0 to 100%")
	f.DurationVar(&q.period, "period", q.period, "enforce the limit in each such `TIME`, 1ms to 1s")
	f.BoolVar(&q.idle, "idle", false, "use only CPU time that nothing else here wants")
	f.StringVar(&q.name, "name", "", "call its control group pinfold-run-`NAME`, for 'pinfold top' and 'pinfold sample'")
	f.BoolVar(&q.wait, "wait", false, "wait for processes that the command leaves behind")
	q.output = outputFlag(cmd)
	f.StringVar(&q.statsFile, "stats-file", "", "write the figures to `FILE`")
	cmd.RunE = asked(func(cmd *cobra.Command, args []string) error {
		if err := q.check(cmd.Flags(), args); err != nil {
			return err
		}
		return q.run(cmd, args)
	})
	return cmd
}

// runHelper does the work of a run's helpers: see confine.Helper.
func runHelper(args []string) (status int, ok bool) { return confine.Helper(args) }

// runStatus gives errors of "pinfold run" their status.
func runStatus(err error) error {
	var own *exit
	var start *confine.StartError
	switch {
	case err == nil, errors.As(err, &own):
		return err
	case !errors.As(err, &start):
		return &exit{statusOurs, err}
	case start.Missing:
		return &exit{statusMissing, err}
	}
	return &exit{statusNotRun, err}
}

// confinement is what the flags ask for.
type confinement struct {
	cpus      count
	cpuset    cpuList
	fullCores *choice
	limit     cpuAmount
	burst     burst
	period    time.Duration
	idle      bool
	name      string
	wait      bool
	output    *choice
	statsFile string
}

// check finds what is wrong on any machine.
func (q *confinement) check(flags *pflag.FlagSet, args []string) error {
	switch {
	case len(args) == 0:
		return &wrongUsage{"no command given: put it last, as in 'pinfold run --limit 2 -- make'"}
	case flags.Changed("cpus") && flags.Changed("cpuset"):
		return &wrongUsage{"--cpus chooses CPUs and --cpuset names them: give one of them"}
	case flags.Changed("full-cores") && !flags.Changed("cpus"):
		return &wrongUsage{"--full-cores is about how --cpus chooses: give that, too"}
	case flags.Changed("burst") && !flags.Changed("limit"):
		return &wrongUsage{"--burst is a part of the limit: give --limit, too"}
	case q.burst > 100:
		return &wrongUsage{fmt.Sprintf("--burst %v: at most 100%%: the kernel refuses a burst above the quota", q.burst)}
	case flags.Changed("period") && !flags.Changed("limit"):
		return &wrongUsage{"--period is what the limit is enforced in: give --limit, too"}
	case flags.Changed("stats-file") && q.statsFile == "":
		return &wrongUsage{"--stats-file is empty: name a file"}
	}
	if flags.Changed("name") {
		if err := confine.CheckName(q.name); err != nil {
			return &wrongUsage{"--name: " + err.Error()}
		}
	}
	if q.limit == 0 {
		return nil
	}
	if q.period < time.Millisecond || q.period > time.Second || q.period%time.Microsecond != 0 {
		return &wrongUsage{fmt.Sprintf("--period %v: the kernel takes 1ms to 1s, in whole microseconds", q.period)}
	}
	if quota := q.limit.in(q.period); quota < time.Millisecond {
		return &wrongUsage{fmt.Sprintf("--limit %s is %v in a period of %v, and the kernel takes 1ms or more: raise the limit to %s or more, or the period",
			q.limit.String(), quota, q.period, leastLimit(q.period))}
	}
	return nil
}

// settings are what the kernel is to be told.
func (q *confinement) settings() cgroup.Wanted {
	var w cgroup.Wanted
	if q.limit != 0 {
		quota := q.limit.in(q.period)
		w.Quota, w.Period = &quota, &q.period
	}
	if q.burst != 0 {
		w.Burst = new(time.Duration(float64(*w.Quota) * float64(q.burst) / 100).Truncate(time.Microsecond))
	}
	if q.idle {
		w.Idle = &q.idle
	}
	return w
}

// run runs the command and prints the figures.
func (q *confinement) run(cmd *cobra.Command, args []string) (err error) {
	path, err := confine.Look(args[0])
	if err != nil {
		return err
	}
	stats, err := q.openStats(cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stats.Close()) }()
	result, err := confine.Run(cmd.Context(), confine.Spec{
		Name: q.name, Path: path, Args: args, Settings: q.settings(), CPUs: q.choose(cmd.ErrOrStderr()), Wait: q.wait,
		Stdin: cmd.InOrStdin(), Stdout: cmd.OutOrStdout(), Stderr: cmd.ErrOrStderr(),
		Notify: func(message string) { fmt.Fprintln(cmd.ErrOrStderr(), "pinfold:", message) },
	})
	if result != nil {
		err = errors.Join(err, q.report(stats, result))
	}
	if err != nil {
		return advise(err)
	}
	if result.ExitStatus != 0 {
		return &exit{status: result.ExitStatus}
	}
	return nil
}

// advise says to errors of the kernel, which speak of files, which flag they come from.
func advise(err error) error {
	var missing *cgroup.UnsupportedError
	var refused *cgroup.WriteError
	switch {
	case errors.As(err, &refused) && errors.Is(err, unix.EINVAL) && (refused.File == cgroup.CPUCFSQuota || refused.File == cgroup.CPUCFSPeriod):
		// All that is wrong by itself was found before.
		return fmt.Errorf("--limit: a control group around this process has a lower limit: lower this one: %w", err)
	case errors.As(err, &missing) && (missing.File == string(cgroup.CPUCFSBurst) || missing.File == string(cgroup.CPUMaxBurst)):
		return fmt.Errorf("--burst: %w, or leave --burst out", err)
	case errors.As(err, &missing) && missing.File == string(cgroup.CPUIdle):
		return fmt.Errorf("--idle: %w, or leave --idle out and use nice(1)", err)
	}
	return err
}

// openStats opens what the figures are written to, before anything is started.
func (q *confinement) openStats(stderr io.Writer) (io.WriteCloser, error) {
	if q.statsFile == "" {
		return keepOpen{stderr}, nil
	}
	f, err := os.Create(q.statsFile)
	if err != nil {
		return nil, fmt.Errorf("--stats-file: %w", err)
	}
	return f, nil
}

// keepOpen is a writer that is somebody else's to close.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
