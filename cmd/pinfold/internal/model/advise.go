package model

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/cmd/pinfold/internal/fleet"
	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/trace"
	show "pinfold.dev/pinfold/report/advice"
	"pinfold.dev/pinfold/report/terminal"
)

const outputPatch frame.Format = "patch"

// NewAdvise returns the subcommand "advise".
func NewAdvise() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "advise FILE... [flags]\nadvise --prometheus URL [flags]",
		Short: "Recommend the limit and burst of containers, and say why",
		Long: `Recommend a CPU limit for each recorded container, without burst and with it; a
burst, an enforcement period and a number of threads; and say whether binding to
CPUs pays and more replicas are needed. Each comes with its reason and its
certainty. With --node-cpus it also says how many such containers fit on a node.

Recordings come from 'pinfold sample'. Record for minutes, under representative
load, and without a limit if you can.

With --prometheus it gives a verdict on each workload of a cluster instead, from
the counters of the kubelets: whether it is throttled, and whether a burst or
another limit ends that. Where counters do not tell, it says so.`,
		Example: `  pinfold advise web.parquet
  pinfold advise web.parquet --group shop/web-0/app -o patch > patch.yaml
  pinfold advise --prometheus http://localhost:9090 --html fleet.html`,
		ValidArgsFunction: files.Complete,
	}
	o, all := newAdviseOptions(cmd), &fleet.Options{}
	all.AddFlags(cmd)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("prometheus") && len(args) > 0 {
			return frame.Usagef("--prometheus is about all workloads of a cluster: give it, or recordings, not both")
		}
		if cmd.Flags().Changed("prometheus") {
			return nil
		}
		return someTraces(cmd, args)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f := cmd.Flags()
		if err := frame.Needs(f, "prometheus", "since", "namespace", "dry-run", "match", "check", "patches", "prometheus-token-file", "prometheus-ca-file", "prometheus-header", "kubeconfig", "context", "request-timeout"); err != nil {
			return err
		}
		if !f.Changed("prometheus") {
			if o.output == fleet.CSV {
				return frame.Usagef("-o csv is for --prometheus: recordings have text, json and patch")
			}
			return o.run(cmd, args)
		}
		for _, name := range []string{"group", "wcet1", "burst", "node-cpus", "period", "seed", "interval"} {
			if f.Changed(name) {
				return frame.Usagef("--%s is about recordings: leave it out with --prometheus", name)
			}
		}
		if err := o.goal.Validate(); err != nil {
			return frame.Usagef("%w, as in --throttled 1%%", err)
		}
		if o.output == outputPatch {
			return frame.Usagef("-o patch is about recordings: with --prometheus there is --patches")
		}
		if err := o.checkOutput(f); err != nil {
			return err
		}
		return all.Run(cmd, o.goal.ThrottleRatio, o.output, o.verbose, o.html, o.force)
	}
	return cmd
}

func someTraces(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return frame.Usagef("no recording given: make one with 'pinfold sample', and name it, as in '%s web.parquet'", cmd.CommandPath())
	}
	return nil
}

// adviseOptions is what the flags request.
type adviseOptions struct {
	selectionOptions
	goal    advice.Goal
	node    ledger.MilliCPU // 0: not given
	period  time.Duration
	seed    uint64
	html    string
	force   bool
	verbose bool
	output  frame.Format
}

func newAdviseOptions(cmd *cobra.Command) *adviseOptions {
	o := &adviseOptions{
		selectionOptions: selectionOptions{interval: files.IntervalFlag(cmd)},
		goal:             advice.DefaultGoal(),
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&o.groups, "group", nil, "only the recorded group `CGROUP` (its path, or NAMESPACE/POD/CONTAINER); may be repeated")
	frame.ShareVar(flags, &o.goal.ThrottleRatio, 1, "throttled", "the share of all periods that may be throttled")
	frame.ShareVar(flags, &o.goal.ProbabilityWCET1, 1, "wcet1", "P(WCET = 1) on the node: the share of periods in which it does in time what limits and bursts let through")
	frame.ShareVar(flags, &o.goal.Burst, 1, "burst", "the burst to calculate with, as a share of the quota: 0 to 100%")
	frame.Var(flags, &o.node, "node-cpus", "CPUS", "say how many such containers fit on a node with so many `CPUS`", frame.ParseAmount)
	flags.DurationVar(&o.period, "period", 0, "the enforcement period of groups that were recorded without a limit is `TIME` (default as recorded, or 100ms)")
	flags.Uint64Var(&o.seed, "seed", 1, "the random numbers have the seed `S`")
	flags.StringVar(&o.html, "html", "", "also write a page with charts to `FILE`")
	flags.BoolVarP(&o.verbose, "verbose", "v", false, "print all advice, with its reasons")
	flags.BoolVar(&o.force, "force", false, "replace the page if it exists")
	frame.OneOf(flags, &o.output, "output", "how to print the result; patch, for kubectl, of recordings, and csv with --prometheus", frame.Text, frame.JSON, outputPatch, fleet.CSV)
	return o
}

// check rejects wrong flags before anything is read.
func (o *adviseOptions) check(cmd *cobra.Command) error {
	if err := o.goal.Validate(); err != nil {
		return frame.Usagef("%w, as in --throttled 1%%, --burst 100%% or --wcet1 99%%", err)
	}
	flags := cmd.Flags()
	switch {
	case flags.Changed("period") && (o.period < bandwidth.MinPeriod || o.period > bandwidth.MaxPeriod):
		return frame.Usagef("--period %v: enforcement periods are %v to %v", o.period, bandwidth.MinPeriod, bandwidth.MaxPeriod)
	case flags.Changed("wcet1") && o.node == 0:
		return frame.Usagef("--wcet1 is about a node: say how large it is with --node-cpus")
	}
	if err := o.selectionOptions.check(); err != nil {
		return err
	}
	return o.checkOutput(flags)
}

// checkOutput rejects wrong flags of what is written, and checks that the page can be written.
func (o *adviseOptions) checkOutput(flags *pflag.FlagSet) error {
	switch {
	case flags.Changed("html") && o.html == "":
		return frame.Usagef("--html is empty: name a file")
	case o.verbose && o.output != frame.Text:
		return frame.Usagef("--verbose is about text: -o json has everything")
	case o.force && o.html == "":
		return frame.Usagef("--force is for --html: name the page's file")
	case o.html == "":
		return nil
	}
	info, err := os.Lstat(o.html)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("--html %s is a folder: name a file in it", o.html)
	case err == nil && !o.force:
		return frame.SuggestForce(fmt.Errorf("%s: %w", o.html, fs.ErrExist))
	case err == nil && slices.ContainsFunc(o.files, func(file string) bool { return isSameFile(file, o.html) }):
		return fmt.Errorf("--html %s is a recording to advise on: choose another name", o.html)
	}
	if _, err := os.Stat(filepath.Dir(o.html)); err != nil {
		return fmt.Errorf("--html %s: %w", o.html, err)
	}
	return nil
}

// isSameFile reports whether two names lead to the same file.
func isSameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

func (o *adviseOptions) run(cmd *cobra.Command, args []string) error {
	o.files = args
	if err := o.check(cmd); err != nil {
		return err
	}
	found, err := o.consult(cmd.Context(), cmd.ErrOrStderr())
	if len(found.Containers) == 0 {
		return err
	}
	if err != nil {
		return errors.Join(err, o.print(cmd, found))
	}
	if err := o.writePage(found); err != nil {
		return err
	}
	return o.print(cmd, found)
}

// consult returns the advice for all groups. When it is interrupted, it returns the advice so far
// with the error.
func (o *adviseOptions) consult(ctx context.Context, stderr io.Writer) (*show.Report, error) {
	ctx, stop := frame.Interruptible(ctx)
	defer stop()
	found := &show.Report{Goal: o.goal, Seed: o.seed}
	groups, err := o.survey(ctx, stderr)
	if err == nil {
		err = o.checkPeriod(groups)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return found, errors.New("interrupted, and nothing is printed")
	case err != nil:
		return found, err
	}
	paths := map[string]map[string]bool{} // by name: a container that restarts has several groups
	for _, g := range groups {
		if paths[g.Name] == nil {
			paths[g.Name] = map[string]bool{}
		}
		paths[g.Name][g.Path] = true
	}
	progress := frame.NewProgress(stderr)
	defer progress.End()
	err = o.eachSeries(ctx, groups, maxSamplesAtOnce, func(g group, interval time.Duration, s *trace.Series) error {
		progress.Draw(func() string {
			n := len(found.Containers)
			return fmt.Sprintf("%s  %v  group %d of %d  (ctrl-C ends)", frame.Bar(float64(n)/float64(len(groups))), progress.Elapsed(), n+1, len(groups))
		})
		c, err := o.advise(ctx, interval, s)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", g.File, g.Path, err)
		}
		c.File = g.File
		c.Twin = g.Name != "" && len(paths[g.Name]) > 1
		found.Containers = append(found.Containers, c)
		return nil
	})
	if err != nil && ctx.Err() != nil {
		n := len(found.Containers)
		return found, fmt.Errorf("interrupted: %d of %d groups are done%s", n, len(groups), andPrinted(n))
	}
	return found, err
}

// advise returns the advice for one group.
func (o *adviseOptions) advise(ctx context.Context, interval time.Duration, s *trace.Series) (show.Container, error) {
	options := advice.Options{Random: randomSources(o.seed), Workers: runtime.GOMAXPROCS(0)}
	if o.period != 0 {
		for i := range s.Samples { // of a group without a limit
			s.Samples[i].Limits.Period = o.period
		}
	}
	c, err := advice.ForContainer(ctx, s, interval, o.goal, options)
	out := show.Container{Container: c}
	if err != nil || o.node == 0 {
		return out, err
	}
	goal, limit := o.goal, c.Recorded.LimitCPUs
	if d, ok := c.Decide(goal); ok {
		goal.Burst, limit = d.BurstPercent/100, d.LimitCPUs
	}
	if limit == 0 {
		out.Node = &advice.Node{Finding: c.LimitWithBurst.Finding, CPUs: o.node.CPUs(), BurstPercent: 100 * goal.Burst}
		return out, nil
	}
	node, err := advice.ForNode(ctx, s, interval, o.node.CPUs(), limit, goal, options)
	out.Node = &node
	return out, err
}

// checkPeriod rejects --period for groups that were recorded with a limit.
func (o *adviseOptions) checkPeriod(groups []group) error {
	for _, g := range groups {
		if g.limited && o.period != 0 {
			return fmt.Errorf("%s: %s was recorded with a limit, whose period counts: leave out --period, or choose other groups with --group", g.File, g.Path)
		}
	}
	return nil
}

func (o *adviseOptions) print(cmd *cobra.Command, found *show.Report) error {
	switch o.output {
	case frame.JSON:
		return frame.PrintJSON(cmd.OutOrStdout(), found.JSON())
	case outputPatch:
		return printPatches(cmd.OutOrStdout(), cmd.ErrOrStderr(), found)
	}
	return found.Text(cmd.OutOrStdout(), terminal.Columns(cmd.OutOrStdout()), o.verbose)
}

func printPatches(stdout, stderr io.Writer, found *show.Report) error {
	pods, omitted, err := found.Patches(stdout)
	for _, sentence := range omitted {
		frame.Notef(stderr, "%s", sentence)
	}
	switch {
	case err != nil:
		return err
	case pods == 0:
		return errors.New("there is nothing to patch: it takes containers with names, which 'pinfold sample --pod' records, and enough data on them")
	case pods > 1:
		frame.Notef(stderr, "%d documents, of which kubectl patch takes the first of a file only: choose pods with --group, or divide the file", pods)
	}
	return nil
}

// writePage writes the page of --html, if given.
func (o *adviseOptions) writePage(found *show.Report) error {
	if o.html == "" {
		return nil
	}
	var page bytes.Buffer
	if err := found.HTML(&page); err != nil {
		return err
	}
	return frame.SuggestForce(frame.WriteFile(o.html, page.Bytes(), o.force))
}
