//go:build linux

package record

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/groups"
	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/tracefile"
)

// NewSample returns the subcommand "sample".
func NewSample() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sample CGROUP... [flags]\nsample --pod NAMESPACE/NAME [flags]\nsample --pid PID [flags]",
		Short: "Record what control groups use, period by period",
		Long: `Record CPU usage and throttling of control groups at a fine interval, and show
at the end what limit they need at which timescale. It ends after --duration or
--samples, with ctrl-C, or when all groups are gone. A group is a path in the
hierarchy (/kubepods/burstable), a directory, or a pattern of one in quotes.

-o records to a file. Until the end, samples go to FILE.journal, so that ctrl-C,
a full disk or kill -9 lose only the last second: see 'pinfold trace recover'.

--exact also traces what each thread does, to web.spans.parquet if FILE is
web.parquet; it needs what 'pinfold why' needs. On a busy machine --weight gives
the groups, and all above them, the kernel's largest weight until the end
(cpu.weight 10000, cpu.shares 262144), so that neighbours get less.`,
		Example: `  pinfold sample /kubepods/burstable --duration 1m
  pinfold sample --pod default/web --duration 10m -o web.parquet --exact
  pinfold sample '/system.slice/*.service' -o services.parquet`,
	}
	o := &sampleOptions{}
	f := cmd.Flags()
	o.AddFlags(cmd, "sample")
	f.DurationVar(&o.interval, "interval", 0, "take a sample of each group every `TIME`, 1ms or more (default: a fifth of the groups' shortest enforcement period; all of it for more than 100 groups)")
	f.DurationVar(&o.duration, "duration", 0, "end after `TIME`; up to a tenth later, until no group is throttled")
	frame.Var(f, &o.samples, "samples", "N", "end after N samples of a group", frame.ParseCount)
	f.StringVarP(&o.output.Name, "output", "o", "", "record to `FILE`: *.parquet, *.csv, *.npy, or - for CSV on standard output")
	f.BoolVar(&o.output.Replace, "force", false, "replace FILE if it exists")
	f.BoolVar(&o.exact, "exact", false, "also trace what each thread does, into a second table beside a .parquet file")
	o.maxCost = groups.MaxCost
	frame.ShareVar(f, &o.maxCost, 1, "max-cost", "with --exact, trace no longer if it uses more than this SHARE of the machine's CPU time")
	f.BoolVar(&o.weight, "weight", false, "get CPUs before other groups meanwhile: raise the weights of the groups, and of all above them")
	cmd.RunE, cmd.ValidArgsFunction = o.run, groups.Complete
	return cmd
}

// sampleOptions is what the flags request.
type sampleOptions struct {
	groups.Options
	interval time.Duration
	duration time.Duration
	samples  int // 0: not given
	output   tracefile.Output
	exact    bool
	maxCost  float64 // of the machine's CPU time
	weight   bool
}

// check rejects flags that are wrong on every machine.
func (o *sampleOptions) check(flags *pflag.FlagSet, args []string) error {
	switch {
	case !o.Given(args):
		return frame.Usagef("no control group given: use --pod NAMESPACE/NAME, --pid PID, or %s", o.Missing())
	case slices.Contains(args, ""):
		return frame.Usagef("a control group's name is empty: / is the root of the hierarchy")
	case flags.Changed("duration") && flags.Changed("samples"):
		return frame.Usagef("--duration and --samples both say when to end: give one of them")
	case flags.Changed("duration") && o.duration <= 0:
		return frame.Usagef("--duration %v: must be more than 0", o.duration)
	case flags.Changed("output") && o.output.Name == "":
		return frame.Usagef("--output is empty: name a file, or - for standard output")
	case o.output.Replace && o.output.Name == "":
		return frame.Usagef("--force is about the output: give -o, too")
	}
	if flags.Changed("interval") {
		if err := sampler.CheckInterval(o.interval); err != nil {
			return frame.Usagef("--interval: %w", err)
		}
	}
	if o.output.Name != "" {
		if _, err := tracefile.FormatOf(o.output.Name); err != nil {
			return frame.Usagef("-o %w", err)
		}
	}
	format, _ := tracefile.FormatOf(o.output.Name)
	switch {
	case o.exact && format != tracefile.Parquet && !o.Remote:
		return frame.Usagef("--exact writes a second table beside a Parquet file: give -o FILE.parquet, too")
	case !o.exact && flags.Changed("max-cost"):
		return frame.Usagef("--max-cost is about --exact: give it, too")
	case o.exact:
		return groups.CheckCost(o.maxCost)
	}
	return nil
}

func (o *sampleOptions) run(cmd *cobra.Command, args []string) error {
	if err := o.check(cmd.Flags(), args); err != nil {
		return err
	}
	if o.output.Name != "" {
		if err := o.output.Check(); err != nil {
			return frame.SuggestForce(err)
		}
	}
	fs, err := cgroup.OpenUsage(o.Root)
	if err != nil {
		return err
	}
	targets, names, err := o.Targets(fs, args, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if format, err := tracefile.FormatOf(o.output.Name); err == nil && format == tracefile.NPY && len(targets) > 1 {
		return fmt.Errorf("-o %s: an .npy file holds one group, and there are %d: name one, or record to .parquet", o.output.Name, len(targets))
	}
	shortest, longest, err := periods(fs, targets)
	if err != nil {
		return err
	}
	if o.interval == 0 {
		o.interval = defaultInterval(shortest, len(targets))
	}
	o.noteLength(cmd.ErrOrStderr(), longest)
	rec, err := o.record(cmd, fs, targets, names)
	if rec == nil {
		return err
	}
	o.NoteEnded(cmd.ErrOrStderr())
	if err == nil && rec.memory.samples == 0 {
		return fmt.Errorf("nothing was recorded: it ended before the first sample, which comes after %v", o.interval)
	}
	summaryTo := cmd.OutOrStdout()
	if o.output.Name == tracefile.Stdout {
		summaryTo = cmd.ErrOrStderr()
	}
	if err == nil {
		rec.noteReach()
	}
	return errors.Join(err, rec.summary(summaryTo))
}

// maxFine is the number of groups up to which samples are shorter than a period by default: 100
// groups at 10 ms take 1.9% of a CPU (docs/figures.md).
const maxFine = 100

// defaultInterval returns the interval for a number of groups, of which one has the shortest
// period.
func defaultInterval(shortest time.Duration, groups int) time.Duration {
	if groups > maxFine {
		return shortest
	}
	return advice.SampleInterval(shortest)
}

// noteLength says, before a recording to a file, which advice its length will allow.
func (o *sampleOptions) noteLength(stderr io.Writer, period time.Duration) {
	length, goal := o.duration, advice.DefaultGoal().ThrottleRatio
	if o.samples > 0 {
		length = time.Duration(o.samples) * o.interval
	}
	switch {
	case o.output.Name == "" || o.output.Name == tracefile.Stdout:
	case o.interval > period:
		frame.Notef(stderr, "samples of %v do not show single periods of %v: there will be no advice on limits", o.interval, period)
	case length > 0:
		frame.Notef(stderr, "%v at %v: %s", length, period, advice.Reach(int(length/period), period, goal))
	default:
		need, _ := advice.RecordFor(period, goal)
		frame.Notef(stderr, "for advice about %s throttled periods record %v or longer", quantity.Share(goal), need)
	}
}

// periods returns the shortest and the longest enforcement period of groups.
func periods(fs *cgroup.FS, targets []groups.Target) (shortest, longest time.Duration, err error) {
	for _, t := range targets {
		r, err := cgroupstat.Open(fs, t.Group)
		if err != nil {
			return 0, 0, err
		}
		limits, err := r.Limits()
		r.Close()
		if err != nil {
			return 0, 0, err
		}
		p := limits.Period
		if p < sampler.MinInterval {
			continue
		}
		if shortest == 0 || p < shortest {
			shortest = p
		}
		longest = max(longest, p)
	}
	if shortest == 0 {
		shortest, longest = trace.DefaultPeriod, trace.DefaultPeriod
	}
	return shortest, longest, nil
}
