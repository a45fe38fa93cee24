//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/tracefile"
)

func newSample() *cobra.Command {
	cmd := &cobra.Command{
		Use: `sample [CGROUP...] [--pod NAMESPACE/NAME] [--interval TIME]
                 [--duration TIME | --samples N] [-o FILE [--force]]`,
		Short: "Record what control groups use, period by period",
		Long: `Record CPU usage and throttling of control groups at a fine interval, and say at
the end what limit they need at which timescale. It ends after --duration or
--samples, with ctrl-C, or when all groups are gone.

A group is a path in the hierarchy (/kubepods/burstable), a directory
(/sys/fs/cgroup/cpu/kubepods), or a pattern of one of them in quotes
('/kubepods/*/pod*/*'; * does not match /), which is looked up once.

-o records to a file: .parquet, .csv or .npy (one group), - for CSV on standard
output. Until the end samples go to FILE.journal, so that ctrl-C, a full disk or
kill -9 lose no more than the last second: see 'pinfold trace recover'.`,
		Example: `  pinfold sample /kubepods/burstable --duration 1m
  pinfold sample --pod default/web --interval 10ms --duration 1m -o web.parquet
  pinfold sample '/system.slice/*.service' -o services.parquet`,
		DisableFlagsInUseLine: true,
	}
	q := &sampling{}
	f := cmd.Flags()
	f.StringArrayVar(&q.pods, "pod", nil, "sample the containers of the pod `NAMESPACE/NAME` of this node; may be repeated")
	f.DurationVar(&q.interval, "interval", 0, "take a sample of each group every `TIME`, 1ms or more (default: the groups' shortest enforcement period)")
	f.DurationVar(&q.duration, "duration", 0, "end after `TIME`")
	f.Var(&q.samples, "samples", "end after N samples of a group")
	f.StringVarP(&q.output.Name, "output", "o", "", "record to `FILE`: *.parquet, *.csv, *.npy, or - for CSV on standard output")
	f.BoolVar(&q.output.Replace, "force", false, "replace FILE if it exists")
	f.StringVar(&q.root, "host-root", "/", "the machine's root directory is mounted at `DIR`")
	f.StringVar(&q.cgroupRoot, "cgroup-root", "", "the kubelet's --cgroup-root, a `PATH`, for names and --pod")
	cmd.RunE = asked(func(cmd *cobra.Command, args []string) error {
		if err := q.check(cmd.Flags(), args); err != nil {
			return err
		}
		return q.run(cmd, args)
	})
	return cmd
}

// sampling is what the flags ask for.
type sampling struct {
	pods     []string
	interval time.Duration
	duration time.Duration
	samples  count
	output   tracefile.Output

	root, cgroupRoot string
}

// check finds what is wrong on any machine.
func (q *sampling) check(flags *pflag.FlagSet, args []string) error {
	switch {
	case len(args)+len(q.pods) == 0:
		return &wrongUsage{"no control group given: name some, such as /kubepods or '/kubepods/*/pod*', or use --pod NAMESPACE/NAME"}
	case slices.Contains(args, ""):
		return &wrongUsage{"a control group's name is empty: / is the root of the hierarchy"}
	case flags.Changed("duration") && flags.Changed("samples"):
		return &wrongUsage{"--duration and --samples both say when to end: give one of them"}
	case flags.Changed("duration") && q.duration <= 0:
		return &wrongUsage{fmt.Sprintf("--duration %v: must be more than 0", q.duration)}
	case flags.Changed("output") && q.output.Name == "":
		return &wrongUsage{"--output is empty: name a file, or - for standard output"}
	case q.output.Replace && q.output.Name == "":
		return &wrongUsage{"--force is about the output: give -o, too"}
	}
	if flags.Changed("interval") {
		if err := sampler.CheckInterval(q.interval); err != nil {
			return &wrongUsage{fmt.Sprintf("--interval: %v", err)}
		}
	}
	if q.output.Name != "" {
		if _, err := tracefile.FormatOf(q.output.Name); err != nil {
			return &wrongUsage{fmt.Sprintf("-o %v", err)}
		}
	}
	return nil
}

func (q *sampling) run(cmd *cobra.Command, args []string) error {
	if err := tracefile.Taken(q.output.Name, q.output.Replace); q.output.Name != "" && err != nil {
		return fmt.Errorf("%w: choose another name, or replace it with --force", err)
	}
	fs, err := cgroup.Open(q.root)
	if err != nil {
		return err
	}
	targets, err := q.targets(fs, args, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if format, err := tracefile.FormatOf(q.output.Name); err == nil && format == tracefile.NPY && len(targets) > 1 {
		return fmt.Errorf("-o %s: an .npy file holds one group, and there are %d: name one, or record to .parquet", q.output.Name, len(targets))
	}
	if q.interval == 0 {
		if q.interval, err = shortestPeriod(fs, targets); err != nil {
			return err
		}
	}
	rec, err := q.record(cmd, fs, targets)
	if rec == nil {
		return err
	}
	if err == nil && rec.memory.samples == 0 {
		return fmt.Errorf("nothing was recorded: it ended before the first sample, which comes after %v", q.interval)
	}
	return errors.Join(err, rec.summary(q.summaryTo(cmd)))
}

// summaryTo is standard output, unless the recording goes there.
func (q *sampling) summaryTo(cmd *cobra.Command) io.Writer {
	if q.output.Name == tracefile.Stdout {
		return cmd.ErrOrStderr()
	}
	return cmd.OutOrStdout()
}

// shortestPeriod is the interval at which no group's period goes unseen.
func shortestPeriod(fs *cgroup.FS, targets []target) (time.Duration, error) {
	shortest := time.Duration(0)
	for _, t := range targets {
		r, err := fs.OpenStat(t.group)
		if err != nil {
			return 0, err
		}
		limits, err := r.Limits()
		r.Close()
		if err != nil {
			return 0, err
		}
		if p := limits.Period; p >= sampler.MinInterval && (shortest == 0 || p < shortest) {
			shortest = p
		}
	}
	if shortest == 0 {
		shortest = trace.DefaultPeriod
	}
	return shortest, nil
}
