//go:build linux

// Package run implements the subcommand "run" ([New]), which runs a command in a cgroup of its own,
// with its own CPUs, limit and burst, and reports what it used. The cgroup itself is made and
// removed by linux/confine.
package run

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/confine"
	"pinfold.dev/pinfold/linux/feature"
	"pinfold.dev/pinfold/linux/sysfs"
)

// New returns the subcommand "run".
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "Run a command with CPUs, limit and burst of its own",
		Long: `Run a command in a control group of its own, and show at the end what it used
and how often it was throttled. The group is always removed. This requires root,
or a control group that belongs to you (docs/pinfold.md says how).

The figures go to standard error, or to --stats-file. The exit status is the
command's; 128 plus the signal's number when a signal ended it; 126 when it
cannot be executed, 127 when it does not exist, 125 when pinfold itself failed.

Processes that the command leaves behind are killed, unless --wait is given.`,
		Example: `  pinfold run --limit 0.5 --burst 100% -- ./server
  pinfold run --cpus 4 --full-cores required -- make -j4`,
	}
	cmd.ValidArgsFunction = frame.CompleteFiles
	o := &options{output: frame.OutputFlag(cmd)}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after the command are the command's
	frame.Var(f, &o.cpus, "cpus", "N", "run it on N CPUs, the best ones; only if too few are free, on some of other runs", frame.ParseCount)
	frame.Var(f, &o.cpuset, "cpuset", "LIST", "run it on these CPUs, a list such as 0-3,8", parseCPUs)
	frame.OneOf(f, &o.fullCores, "full-cores", "whether whole cores are preferred or required; for --cpus",
		placement.FullCoresPreferred, placement.FullCoresRequired)
	frame.Var(f, &o.limit, "limit", "CPUS", "CPU time per time, such as 0.5, 500m or 4", frame.ParseAmount)
	frame.ShareVar(f, &o.burst, 1, "burst", "unused quota to save and use later, as a share of the quota: 0 to 100%")
	f.DurationVar(&o.period, "period", 100*time.Millisecond, "enforce the limit in each `TIME`, 1ms to 1s")
	f.BoolVar(&o.idle, "idle", false, "use only CPU time that nothing else here wants")
	f.StringVar(&o.name, "name", "", "call its control group pinfold-run-`NAME`, for 'pinfold top' and 'pinfold sample'")
	f.BoolVar(&o.wait, "wait", false, "wait for processes that the command leaves behind")
	f.StringVar(&o.statsFile, "stats-file", "", "write the figures to `FILE`, which is replaced")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return withStatus(o.run(cmd, args)) }
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return withStatus(cmd.Parent().FlagErrorFunc()(cmd, err)) })
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

// withStatus gives an error its exit status.
func withStatus(err error) error {
	var own *frame.ExitError
	var start *confine.StartError
	switch {
	case err == nil, errors.As(err, &own):
		return err
	case !errors.As(err, &start):
		return &frame.ExitError{Status: statusFailed, Err: err}
	case start.Missing:
		return &frame.ExitError{Status: statusMissing, Err: err}
	}
	return &frame.ExitError{Status: statusNotRun, Err: err}
}

// options is what the flags request.
type options struct {
	cpus      int    // 0: not given
	cpuset    string // a list of CPUs; "": not given
	fullCores placement.FullCores
	limit     ledger.MilliCPU // 0: not given
	burst     float64         // of the quota
	period    time.Duration
	idle      bool
	name      string
	wait      bool
	output    *frame.Format
	statsFile string
}

// check rejects flags that are wrong on every machine.
func (o *options) check(flags *pflag.FlagSet, args []string) error {
	switch {
	case len(args) == 0:
		return frame.Usagef("no command given: put it last, as in 'pinfold run --limit 2 -- make'")
	case flags.Changed("cpus") && flags.Changed("cpuset"):
		return frame.Usagef("--cpus chooses CPUs and --cpuset names them: give one of them")
	case flags.Changed("stats-file") && o.statsFile == "":
		return frame.Usagef("--stats-file is empty: name a file")
	}
	if err := cmp.Or(frame.Needs(flags, "cpus", "full-cores"), frame.Needs(flags, "limit", "burst", "period")); err != nil {
		return err
	}
	if flags.Changed("name") {
		if err := confine.CheckName(o.name); err != nil {
			return frame.Usagef("--name: %w", err)
		}
	}
	if o.limit == 0 {
		return nil
	}
	if o.period < time.Millisecond || o.period > time.Second || o.period%time.Microsecond != 0 {
		return frame.Usagef("--period %v: the kernel takes 1ms to 1s, in whole microseconds", o.period)
	}
	if quota := frame.Quota(o.limit, o.period); quota < time.Millisecond {
		return frame.Usagef("--limit %s is %v in a period of %v, and the kernel takes 1ms or more: raise the limit to %s or more, or the period",
			o.limit, quota, o.period, frame.MinLimit(o.period))
	}
	return nil
}

// checkLimit rejects a limit that is more than this machine has. It would limit nothing, and is
// probably one in thousandths of a CPU.
func (o *options) checkLimit() error {
	cpus := ledger.MilliCPU(1000 * runtime.NumCPU())
	if o.limit <= cpus { // as almost always: the machine need not be examined
		return nil
	}
	if m, _, err := sysfs.Host(cpuset.Set{}); err == nil {
		cpus = max(cpus, ledger.MilliCPU(1000*m.Online().Len()))
	}
	switch {
	case o.limit <= cpus:
		return nil
	case o.limit/1000 >= frame.MinLimit(o.period) && o.limit/1000 <= cpus && o.limit%1000 == 0:
		return frame.Usagef("--limit %v is more than this machine has (%v CPUs): write %vm for %v CPUs", o.limit, cpus, o.limit, o.limit/1000)
	}
	return frame.Usagef("--limit %v is more than this machine has (%v CPUs): leave it out, or lower it", o.limit, cpus)
}

// settings returns the cgroup's settings.
func (o *options) settings() cgroup.Wanted {
	var w cgroup.Wanted
	if o.limit != 0 {
		quota := frame.Quota(o.limit, o.period)
		w.Quota, w.Period = &quota, &o.period
	}
	if o.burst != 0 {
		w.Burst = new(time.Duration(float64(*w.Quota) * o.burst).Truncate(time.Microsecond))
	}
	if o.idle {
		w.Idle = &o.idle
	}
	return w
}

// run runs the command and prints the figures.
func (o *options) run(cmd *cobra.Command, args []string) (err error) {
	if err := o.check(cmd.Flags(), args); err != nil {
		return err
	}
	if err := o.checkLimit(); err != nil {
		return err
	}
	path, err := confine.Look(args[0])
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	stats := stderr
	if o.statsFile != "" { // before anything is started
		f, openErr := os.Create(o.statsFile)
		if openErr != nil {
			return fmt.Errorf("--stats-file: %w", openErr)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		stats = f
	}
	result, err := confine.Run(cmd.Context(), confine.Spec{
		Name: o.name, Path: path, Args: args,
		Settings: o.settings(), CPUs: o.choose(stderr), Wait: o.wait,
		Stdin: cmd.InOrStdin(), Stdout: cmd.OutOrStdout(), Stderr: stderr,
		Notify: func(message string) { frame.Notef(stderr, "%s", message) },
	})
	if result != nil {
		err = errors.Join(err, o.report(stats, result))
	}
	if err != nil {
		return nameFlag(err)
	}
	if result.ExitStatus != 0 {
		return &frame.ExitError{Status: result.ExitStatus}
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
