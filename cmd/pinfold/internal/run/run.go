//go:build linux

// Package run implements the subcommand "run" ([New]), which runs a command in a cgroup of its own,
// with its own CPUs, limit and burst, and reports what it used. The cgroup itself is made and
// removed by linux/confine.
package run

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/cmd/internal/completion"
	"pinfold.dev/pinfold/cmd/internal/usage"
	"pinfold.dev/pinfold/cmd/pinfold/internal/frame"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/report"
)

// New returns the subcommand "run". Pass its errors to [ExitStatus].
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use: `run [--cpus N [--full-cores preferred|required] | --cpuset LIST]
              [--limit CPUS [--burst PERCENT] [--period TIME]] [--idle]
              [--name NAME] [--wait] [-o text|json] [--stats-file FILE]
              -- COMMAND [ARG...]`,
		Short: "Run a command with CPUs, limit and burst of its own",
		Long: `Run a command in a control group of its own, and show at the end what it used
and how often it was throttled. The group is always removed. This requires root,
or a control group that belongs to you (docs/pinfold.md says how).

The figures go to standard error, or to --stats-file. The exit status is the
command's; 128 plus the signal's number when a signal ended it; 126 when it
cannot be executed, 127 when it does not exist, 125 when pinfold itself failed.

Processes that the command leaves behind are killed, unless --wait is given.`,
		Example: `  pinfold run --limit 0.5 --burst 100% -- ./server
  pinfold run --cpus 4 --full-cores required -- make -j4
  pinfold run --cpuset 0-3 --idle -o json --stats-file stats.json -- ./batch`,
	}
	cmd.ValidArgsFunction = completion.Files
	q := &confinement{output: frame.OutputFlag(cmd)}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after the command are the command's
	frame.Var(f, &q.cpus, "cpus", "N", "run it on N CPUs, the best ones that no other run was given", frame.ParseCount)
	frame.Var(f, &q.cpuset, "cpuset", "LIST", "run it on these CPUs, a list such as 0-3,8", parseCPUs)
	frame.OneOf(f, &q.fullCores, "full-cores", "whether whole cores are preferred or required; for --cpus",
		placement.FullCoresPreferred, placement.FullCoresRequired)
	frame.Var(f, &q.limit, "limit", "CPUS", "CPU time per time, such as 0.5, 500m or 4", frame.ParseAmount)
	frame.Var(f, &q.burst, "burst", "PERCENT", "unused quota to save and use later, as a percentage of the quota: 0 to 100%", frame.ParseBurst)
	f.DurationVar(&q.period, "period", 100*time.Millisecond, "enforce the limit in each `TIME`, 1ms to 1s")
	f.BoolVar(&q.idle, "idle", false, "use only CPU time that nothing else here wants")
	f.StringVar(&q.name, "name", "", "call its control group pinfold-run-`NAME`, for 'pinfold top' and 'pinfold sample'")
	f.BoolVar(&q.wait, "wait", false, "wait for processes that the command leaves behind")
	f.StringVar(&q.statsFile, "stats-file", "", "write the figures to `FILE`")
	cmd.RunE = q.run
	return cmd
}

// parseCPUs checks a list of CPUs. Which CPUs it names depends on the machine.
func parseCPUs(text string) (string, error) {
	cpus, err := cpuset.ParseTyped(text, cpuset.Range(0, cpuset.MaxCPUs-1))
	if err == nil && cpus.IsEmpty() {
		err = errors.New("is empty: name CPUs, such as 0-3")
	}
	return text, err
}

// The exit statuses for failures before the command runs are those of env(1), timeout(1) and
// shells.
const (
	statusFailed  = 125 // pinfold failed, also by wrong usage
	statusNotRun  = 126 // the command cannot be executed
	statusMissing = 127 // the command does not exist
)

// ExitStatus gives an error of "run" its exit status.
func ExitStatus(err error) error {
	var own *frame.Exit
	var start *confine.StartError
	switch {
	case err == nil, errors.As(err, &own):
		return err
	case !errors.As(err, &start):
		return &frame.Exit{Status: statusFailed, Err: err}
	case start.Missing:
		return &frame.Exit{Status: statusMissing, Err: err}
	}
	return &frame.Exit{Status: statusNotRun, Err: err}
}

// confinement is what the flags request.
type confinement struct {
	cpus      int    // 0: not given
	cpuset    string // a list of CPUs; "": not given
	fullCores placement.FullCores
	limit     ledger.MilliCPU // 0: not given
	burst     report.Burst
	period    time.Duration
	idle      bool
	name      string
	wait      bool
	output    *frame.Format
	statsFile string
}

// check rejects flags that are wrong on every machine.
func (q *confinement) check(flags *pflag.FlagSet, args []string) error {
	switch {
	case len(args) == 0:
		return usage.Errorf("no command given: put it last, as in 'pinfold run --limit 2 -- make'")
	case flags.Changed("cpus") && flags.Changed("cpuset"):
		return usage.Errorf("--cpus chooses CPUs and --cpuset names them: give one of them")
	case flags.Changed("full-cores") && !flags.Changed("cpus"):
		return usage.Errorf("--full-cores is about how --cpus chooses: give that, too")
	case flags.Changed("burst") && !flags.Changed("limit"):
		return usage.Errorf("--burst is a part of the limit: give --limit, too")
	case q.burst > 100:
		return usage.Errorf("--burst %v: at most 100%%: the kernel refuses a burst above the quota", q.burst)
	case flags.Changed("period") && !flags.Changed("limit"):
		return usage.Errorf("--period is what the limit is enforced in: give --limit, too")
	case flags.Changed("stats-file") && q.statsFile == "":
		return usage.Errorf("--stats-file is empty: name a file")
	}
	if flags.Changed("name") {
		if err := confine.CheckName(q.name); err != nil {
			return usage.Errorf("--name: %w", err)
		}
	}
	if q.limit == 0 {
		return nil
	}
	if q.period < time.Millisecond || q.period > time.Second || q.period%time.Microsecond != 0 {
		return usage.Errorf("--period %v: the kernel takes 1ms to 1s, in whole microseconds", q.period)
	}
	if quota := frame.Quota(q.limit, q.period); quota < time.Millisecond {
		return usage.Errorf("--limit %s is %v in a period of %v, and the kernel takes 1ms or more: raise the limit to %s or more, or the period",
			q.limit, quota, q.period, frame.MinLimit(q.period))
	}
	return nil
}

// settings returns the cgroup's settings.
func (q *confinement) settings() cgroup.Wanted {
	var w cgroup.Wanted
	if q.limit != 0 {
		quota := frame.Quota(q.limit, q.period)
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
	if err := q.check(cmd.Flags(), args); err != nil {
		return err
	}
	path, err := confine.Look(args[0])
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	stats := stderr
	if q.statsFile != "" { // before anything is started
		f, openErr := os.Create(q.statsFile)
		if openErr != nil {
			return fmt.Errorf("--stats-file: %w", openErr)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		stats = f
	}
	result, err := confine.Run(cmd.Context(), confine.Spec{
		Name: q.name, Path: path, Args: args, Settings: q.settings(), CPUs: q.choose(stderr), Wait: q.wait,
		Stdin: cmd.InOrStdin(), Stdout: cmd.OutOrStdout(), Stderr: stderr,
		Notify: func(message string) { frame.Notef(stderr, "%s", message) },
	})
	if result != nil {
		err = errors.Join(err, q.report(stats, result))
	}
	if err != nil {
		return nameFlag(err)
	}
	if result.ExitStatus != 0 {
		return &frame.Exit{Status: result.ExitStatus}
	}
	return nil
}

// nameFlag adds to errors of the kernel, which name files, the flag that caused them.
func nameFlag(err error) error {
	var missing *feature.UnsupportedError
	var refused *cgroup.WriteError
	switch {
	case errors.As(err, &refused) && errors.Is(err, unix.EINVAL) && (refused.File == cgroup.CPUCFSQuota || refused.File == cgroup.CPUCFSPeriod):
		// The values are valid by themselves: check has accepted them.
		return fmt.Errorf("--limit: a control group around this process has a lower limit: lower this one: %w", err)
	case errors.As(err, &missing) && missing.Feature == feature.Burst:
		return fmt.Errorf("--burst: %w, or leave --burst out", err)
	case errors.As(err, &missing) && missing.Feature == feature.Idle:
		return fmt.Errorf("--idle: %w, or leave --idle out and use nice(1)", err)
	}
	return err
}
