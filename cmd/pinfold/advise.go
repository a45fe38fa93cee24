package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/quantity"
)

const outPatch = "patch"

func newAdvise() *cobra.Command {
	cmd := &cobra.Command{
		Use: `advise TRACE... [--group CGROUP]... [--throttled SHARE]
                 [--burst PERCENT] [--node-cpus CPUS [--wcet1 P]]
                 [--period TIME] [--interval TIME] [--seed S]
                 [--html FILE [--force]] [-o text|json|patch]`,
		Short: "Which limit and burst containers need, and why",
		Long: `Say which CPU limit each recorded container needs, without burst and with it,
and which burst, period and number of threads; whether binding to CPUs pays, and
whether more replicas are needed. Each comes with its reason, and with how sure
it is. With --node-cpus it also says how many such containers fit on a node.

Recordings come from 'pinfold sample'. Record for minutes, under the load that
counts, and without a limit if you can.`,
		Example: `  pinfold advise web.parquet
  pinfold advise web.parquet --node-cpus 16 --html advice.html
  pinfold advise web.parquet --group shop/web-0/app -o patch > patch.yaml`,
		Args:                  someTraces,
		DisableFlagsInUseLine: true,
	}
	q := newConsultation(cmd)
	cmd.RunE = asked(func(cmd *cobra.Command, args []string) error {
		q.files = args
		return q.run(cmd)
	})
	return cmd
}

// someTraces wants at least one file.
func someTraces(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return fmt.Errorf("no recording given: make one with 'pinfold sample', and name it, as in '%s web.parquet'", cmd.CommandPath())
	case slices.Contains(args, ""):
		return fmt.Errorf("a recording has no name: name a file, as in '%s web.parquet'", cmd.CommandPath())
	}
	return nil
}

// consultation is what advice is asked about.
type consultation struct {
	selection
	goal   advice.Goal
	burst  burst
	node   cpuAmount // 0 for none
	period time.Duration
	seed   uint64
	html   string
	force  bool
	output *choice
}

func newConsultation(cmd *cobra.Command) *consultation {
	q := &consultation{selection: selection{interval: npyInterval(cmd)}, goal: advice.DefaultGoal(), output: oneOf(outText, outJSON, outPatch)}
	flags := cmd.Flags()
	flags.StringArrayVar(&q.groups, "group", nil, "only the recorded group `CGROUP` (its path, or NAMESPACE/POD/CONTAINER); may be given again")
	flags.Var((*proportion)(&q.goal.ThrottleRatio), "throttled", "the share of all periods that may be throttled")
	q.burst = burst(100 * q.goal.Burst)
	flags.Var(&q.burst, "burst", "the burst to calculate with, as a percentage of the quota: 0 to 100%")
	flags.Var(&q.node, "node-cpus", "say how many such containers fit on a node with so many `CPUS`")
	flags.Var((*proportion)(&q.goal.ProbabilityWCET1), "wcet1", "P(WCET = 1) on the node: how often all that is wanted in a period is to be done in it")
	flags.DurationVar(&q.period, "period", 0, "the enforcement period of groups that were recorded without a limit is `TIME` (default as recorded, or 100ms)")
	flags.Uint64Var(&q.seed, "seed", 1, "where random numbers begin: `S`")
	flags.StringVar(&q.html, "html", "", "write a page with charts to `FILE`, too")
	flags.BoolVar(&q.force, "force", false, "replace the page if it exists")
	flags.VarP(q.output, "output", "o", "how to print the result; patch is for kubectl")
	return q
}

// proportion is a flag: a number, or a percentage.
type proportion float64

func (p *proportion) Type() string   { return "SHARE" }
func (p *proportion) String() string { return quantity.Share(*p).String() }
func (p *proportion) Set(text string) error {
	x, err := parseNumber(text)
	if err == nil {
		*p = proportion(x)
	}
	return err
}

// check refuses what cannot be, before anything is read.
func (q *consultation) check(cmd *cobra.Command) error {
	q.goal.Burst = q.burst.quotas()
	if err := q.goal.Validate(); err != nil {
		return &wrongUsage{err.Error() + ", as in --throttled 1%, --burst 100% or --wcet1 99%"}
	}
	flags := cmd.Flags()
	switch {
	case flags.Changed("period") && (q.period < bandwidth.MinPeriod || q.period > bandwidth.MaxPeriod):
		return &wrongUsage{fmt.Sprintf("--period %v: enforcement periods are %v to %v", q.period, bandwidth.MinPeriod, bandwidth.MaxPeriod)}
	case flags.Changed("wcet1") && q.node == 0:
		return &wrongUsage{"--wcet1 is about a node: say how large it is with --node-cpus"}
	case flags.Changed("html") && q.html == "":
		return &wrongUsage{"--html is empty: name a file"}
	case q.force && q.html == "":
		return &wrongUsage{"--force is for --html: name the page's file"}
	}
	if err := q.selection.check(); err != nil {
		return err
	}
	return q.checkPage()
}

// checkPage finds early what would only be found at the end.
func (q *consultation) checkPage() error {
	if q.html == "" {
		return nil
	}
	info, err := os.Lstat(q.html)
	switch {
	case err == nil && info.IsDir():
		return fmt.Errorf("--html %s is a folder: name a file in it", q.html)
	case err == nil && !q.force:
		return q.pageTaken(fmt.Errorf("%s: %w", q.html, fs.ErrExist))
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

func (q *consultation) pageTaken(err error) error {
	return fmt.Errorf("%w: choose another name, or replace it with --force", err)
}

func (q *consultation) run(cmd *cobra.Command) error {
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
