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

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
	show "pinfold.dev/pinfold/report/advice"
	"pinfold.dev/pinfold/report/terminal"
)

const outputPatch frame.Format = "patch"

// NewAdvise returns the subcommand "advise".
func NewAdvise() *cobra.Command {
	cmd := &cobra.Command{
		Use: `advise TRACE... [--group CGROUP]... [--throttled SHARE]
                 [--burst PERCENT] [--node-cpus CPUS [--wcet1 P]]
                 [--period TIME] [--interval TIME] [--seed S]
                 [--html FILE [--force]] [-o text|json|patch]`,
		Short: "Which limit and burst containers need, and why",
		Long: `Recommend a CPU limit for each recorded container, without burst and with it; a
burst, an enforcement period and a number of threads; and say whether binding to
CPUs pays and more replicas are needed. Each comes with its reason and its
certainty. With --node-cpus it also says how many such containers fit on a node.

Recordings come from 'pinfold sample'. Record for minutes, under representative
load, and without a limit if you can.`,
		Example: `  pinfold advise web.parquet
  pinfold advise web.parquet --node-cpus 16 --html advice.html
  pinfold advise web.parquet --group shop/web-0/app -o patch > patch.yaml`,
		Args: someTraces, ValidArgsFunction: frame.CompleteFiles,
	}
	cmd.RunE = newConsultation(cmd).run
	return cmd
}

func someTraces(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return frame.Usagef("no recording given: make one with 'pinfold sample', and name it, as in '%s web.parquet'", cmd.CommandPath())
	case slices.Contains(args, ""):
		return frame.Usagef("a recording has no name: name a file, as in '%s web.parquet'", cmd.CommandPath())
	}
	return nil
}

// consultation is what the flags request.
type consultation struct {
	selection
	goal   advice.Goal
	burst  report.Burst
	node   ledger.MilliCPU // 0: not given
	period time.Duration
	seed   uint64
	html   string
	force  bool
	output frame.Format
}

func newConsultation(cmd *cobra.Command) *consultation {
	q := &consultation{
		selection: selection{interval: files.IntervalFlag(cmd)},
		goal:      advice.DefaultGoal(),
	}
	q.burst = report.Burst(100 * q.goal.Burst)
	flags := cmd.Flags()
	flags.StringArrayVar(&q.groups, "group", nil, "only the recorded group `CGROUP` (its path, or NAMESPACE/POD/CONTAINER); may be repeated")
	shareVar := func(p *float64, name, help string) {
		frame.Var(flags, (*quantity.Share)(p), name, "SHARE", help, func(text string) (quantity.Share, error) {
			x, err := frame.ParseNumber(text)
			return quantity.Share(x), err
		})
	}
	shareVar(&q.goal.ThrottleRatio, "throttled", "the share of all periods that may be throttled")
	shareVar(&q.goal.ProbabilityWCET1, "wcet1", "P(WCET = 1) on the node: the share of periods whose demand is served in time")
	frame.Var(flags, &q.burst, "burst", "PERCENT", "the burst to calculate with, as a percentage of the quota: 0 to 100%", frame.ParseBurst)
	frame.Var(flags, &q.node, "node-cpus", "CPUS", "say how many such containers fit on a node with so many `CPUS`", frame.ParseAmount)
	flags.DurationVar(&q.period, "period", 0, "the enforcement period of groups that were recorded without a limit is `TIME` (default as recorded, or 100ms)")
	flags.Uint64Var(&q.seed, "seed", 1, "the random numbers have the seed `S`")
	flags.StringVar(&q.html, "html", "", "also write a page with charts to `FILE`")
	flags.BoolVar(&q.force, "force", false, "replace the page if it exists")
	frame.OneOf(flags, &q.output, "output", "how to print the result; patch is for kubectl", frame.Text, frame.JSON, outputPatch)
	return q
}

// check rejects wrong flags before anything is read.
func (q *consultation) check(cmd *cobra.Command) error {
	q.goal.Burst = q.burst.Quotas()
	if err := q.goal.Validate(); err != nil {
		return frame.Usagef("%w, as in --throttled 1%%, --burst 100%% or --wcet1 99%%", err)
	}
	flags := cmd.Flags()
	switch {
	case flags.Changed("period") && (q.period < bandwidth.MinPeriod || q.period > bandwidth.MaxPeriod):
		return frame.Usagef("--period %v: enforcement periods are %v to %v", q.period, bandwidth.MinPeriod, bandwidth.MaxPeriod)
	case flags.Changed("wcet1") && q.node == 0:
		return frame.Usagef("--wcet1 is about a node: say how large it is with --node-cpus")
	case flags.Changed("html") && q.html == "":
		return frame.Usagef("--html is empty: name a file")
	case q.force && q.html == "":
		return frame.Usagef("--force is for --html: name the page's file")
	}
	if err := q.selection.check(); err != nil {
		return err
	}
	return q.checkPage()
}

// checkPage checks that the page can be written.
func (q *consultation) checkPage() error {
	if q.html == "" {
		return nil
	}
	info, err := os.Lstat(q.html)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("--html %s is a folder: name a file in it", q.html)
	case err == nil && !q.force:
		return frame.SuggestForce(fmt.Errorf("%s: %w", q.html, fs.ErrExist))
	case err == nil && slices.ContainsFunc(q.files, func(file string) bool { return isSameFile(file, q.html) }):
		return fmt.Errorf("--html %s is a recording to advise on: choose another name", q.html)
	}
	if _, err := os.Stat(filepath.Dir(q.html)); err != nil {
		return fmt.Errorf("--html %s: %w", q.html, err)
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

func (q *consultation) run(cmd *cobra.Command, args []string) error {
	q.files = args
	if err := q.check(cmd); err != nil {
		return err
	}
	found, err := q.consult(cmd.Context(), cmd.ErrOrStderr())
	if len(found.Containers) == 0 {
		return err
	}
	if err != nil {
		return errors.Join(err, q.print(cmd, found))
	}
	if err := q.writePage(found); err != nil {
		return err
	}
	return q.print(cmd, found)
}

// consult returns the advice for all groups. When it is interrupted, it returns the advice so far
// with the error.
func (q *consultation) consult(ctx context.Context, stderr io.Writer) (*show.Report, error) {
	ctx, stop := frame.Interruptible(ctx)
	defer stop()
	found := &show.Report{Goal: q.goal, Seed: q.seed}
	groups, err := q.survey(ctx, stderr)
	if err == nil {
		err = q.checkPeriod(groups)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return found, errors.New("interrupted, and nothing is printed")
	case err != nil:
		return found, err
	}
	progress := frame.NewProgress(stderr)
	defer progress.End()
	err = q.eachSeries(ctx, groups, samplesAtOnce, func(g group, interval time.Duration, s *trace.Series) error {
		progress.Draw(func() string {
			n := len(found.Containers)
			return fmt.Sprintf("%s  %v  group %d of %d  (ctrl-C ends)", frame.Bar(float64(n)/float64(len(groups))), progress.Elapsed(), n+1, len(groups))
		})
		c, err := q.advise(ctx, interval, s)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", g.File, g.Path, err)
		}
		c.File = g.File
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
func (q *consultation) advise(ctx context.Context, interval time.Duration, s *trace.Series) (show.Container, error) {
	options := advice.Options{Random: randomSources(q.seed), Workers: runtime.GOMAXPROCS(0)}
	if q.period != 0 {
		for i := range s.Samples { // of a group without a limit
			s.Samples[i].Limits.Period = q.period
		}
	}
	c, err := advice.ForContainer(ctx, s, interval, q.goal, options)
	out := show.Container{Container: c}
	if err != nil || q.node == 0 {
		return out, err
	}
	limit := show.DecidedLimit(&c)
	if limit == 0 {
		out.Node = &advice.Node{Finding: c.LimitWithBurst.Finding, CPUs: q.node.CPUs(), BurstPercent: 100 * q.goal.Burst}
		return out, nil
	}
	node, err := advice.ForNode(ctx, s, interval, q.node.CPUs(), limit, q.goal, options)
	out.Node = &node
	return out, err
}

// checkPeriod rejects --period for groups that were recorded with a limit.
func (q *consultation) checkPeriod(groups []group) error {
	for _, g := range groups {
		if g.limited && q.period != 0 {
			return fmt.Errorf("%s: %s was recorded with a limit, whose period counts: leave out --period, or choose other groups with --group", g.File, g.Path)
		}
	}
	return nil
}

func (q *consultation) print(cmd *cobra.Command, found *show.Report) error {
	switch q.output {
	case frame.JSON:
		return frame.PrintJSON(cmd.OutOrStdout(), found.JSON())
	case outputPatch:
		return printPatches(cmd.OutOrStdout(), cmd.ErrOrStderr(), found)
	}
	return found.Text(cmd.OutOrStdout(), terminal.Columns(cmd.OutOrStdout()))
}

func printPatches(stdout, stderr io.Writer, found *show.Report) error {
	pods, left, err := found.Patches(stdout)
	for _, sentence := range left {
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
func (q *consultation) writePage(found *show.Report) error {
	if q.html == "" {
		return nil
	}
	var page bytes.Buffer
	if err := found.HTML(&page); err != nil {
		return err
	}
	return frame.SuggestForce(frame.WriteFile(q.html, page.Bytes(), q.force))
}
