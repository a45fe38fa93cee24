package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/simulation"
	"pinfold.dev/pinfold/report/sweep"
)

func newSweep() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sweep -o DIR [flags]",
		Short: "Draw what burst does over load, containers and burst",
		Long: `Simulate every combination of distribution, mean, number of containers and
burst, and draw E[WCET] (downwards, so that up is better) and P(WCET = 1) over
the mean.

DIR gets index.html, one page with all results, the charts as .svg and .png, and
sweep.csv with the numbers and their standard errors. It appears complete or not
at all. --force replaces a DIR that an earlier sweep has made.`,
		Example: `  pinfold simulate sweep -o sweep
  pinfold simulate sweep -o many --distribution lognormal --cgroups 40,80`,
		Args: frame.NoArguments,
	}
	o := &sweepOptions{
		distributions: newDistributionOptions(cmd, families()),
		means:         frame.NewList("SHARE,...", ".1,.2,.3,.4,.5,.6,.65,.7,.75,.8,.85,.9", frame.ParsePart),
		cgroups:       frame.NewList("M,M,...", "10,20,30", frame.ParseCount),
		bursts:        frame.NewList("SHARE,...", "100%,200%,inf", frame.ParseBurst),
		effort:        newEffortOptions(cmd),
	}
	flags := cmd.Flags()
	named := flags.Lookup("distribution")
	named.Usage = "of the demand in a period: `NAMES` of " + o.distributions.familyText()
	named.DefValue, o.distributions.names = defaultDistributions, defaultDistributions
	flags.Var(o.means, "mean", "demand per period, on average, as a share of the quota")
	flags.Var(o.cgroups, "cgroups", fmt.Sprintf("how many share the machine; %d numbers at most", sweep.MaxCgroups))
	flags.Var(o.bursts, "burst", fmt.Sprintf("unused quota that each may save, as a share of its quota such as 200%%; inf is unlimited; %d at most", sweep.MaxBursts))
	flags.StringVarP(&o.dir, "output", "o", "", "make the folder `DIR`, which must not exist yet")
	flags.BoolVar(&o.force, "force", false, "replace the sweep that is in DIR")
	cmd.RunE = o.run
	return cmd
}

const defaultDistributions = "exponential,pareto"

// sweepOptions is what the flags request.
type sweepOptions struct {
	distributions *distributionOptions
	means         *frame.List[quantity.Share]
	cgroups       *frame.List[int]
	bursts        *frame.List[report.Burst]
	effort        *effortOptions
	dir           string
	force         bool
}

func (o *sweepOptions) run(cmd *cobra.Command, _ []string) error {
	s, all, err := o.plan(cmd)
	if err != nil {
		return err
	}
	target, err := newFolder(o.dir, o.force, isSweepFile)
	if err != nil {
		return err
	}
	// An interruption leaves nothing behind until the end.
	ctx, stop := frame.Interruptible(cmd.Context())
	defer stop()
	done, err := o.effort.simulateAll(ctx, cmd.ErrOrStderr(), all)
	var files []sweep.File
	if err == nil {
		for _, d := range done {
			s.Points = append(s.Points, sweep.Point{Distribution: d.Distribution, Mean: d.Mean, Cgroups: d.Cgroups, Burst: float64(d.Burst), Result: d.Result})
		}
		if files, err = s.Files(); err != nil {
			return err
		}
		err = target.write(ctx, files)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("interrupted: %d of %d combinations were done; %s was not written", len(done), len(all), o.dir)
	case err != nil:
		return err
	}
	if n := s.Uncertain(); n > 0 {
		frame.Notef(cmd.ErrOrStderr(), "%d of %d points are not certain: they are hollow in the charts, and the page says why; take more --periods", n, len(s.Points))
	}
	for _, f := range files {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s/%s\n", strings.TrimRight(o.dir, "/"), f.Name); err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
	}
	return nil
}

// plan returns the sweep without points, and the combinations to simulate. All of them are valid.
func (o *sweepOptions) plan(cmd *cobra.Command) (*sweep.Sweep, []simulation.Combination, error) {
	o.means.Each, o.cgroups.Each, o.bursts.Each = distinct(o.means.Each), distinct(o.cgroups.Each), distinct(o.bursts.Each)
	switch {
	case o.dir == "":
		return nil, nil, frame.Usagef("-o is missing: name a folder for the page, the charts and the numbers, as in -o sweep")
	case len(o.cgroups.Each) > sweep.MaxCgroups:
		return nil, nil, frame.Usagef("--cgroups has %d numbers: a chart can tell %d of them apart", len(o.cgroups.Each), sweep.MaxCgroups)
	case len(o.bursts.Each) > sweep.MaxBursts:
		return nil, nil, frame.Usagef("--burst has %d numbers: a chart can tell %d of them apart", len(o.bursts.Each), sweep.MaxBursts)
	}
	if err := o.effort.check(cmd); err != nil {
		return nil, nil, err
	}
	var names []string
	for name := range strings.SplitSeq(o.distributions.names, ",") {
		if name = strings.TrimSpace(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	families, err := o.distributions.families(names...)
	if err != nil {
		return nil, nil, err
	}
	s := &sweep.Sweep{Command: commandLine(cmd), Program: "pinfold " + frame.Version().Version, Rule: o.effort.rule, Seed: o.effort.seed}
	drawer := &simulateOptions{distribution: o.distributions, means: o.means, cgroups: o.cgroups, bursts: o.bursts}
	var all []simulation.Combination
	for _, known := range families {
		some, err := drawer.drawn(known)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, some...)
		s.Distributions = append(s.Distributions, sweep.Distribution{Name: known.name, Label: o.distributions.label(known)})
	}
	if err := o.effort.checkAll(all); err != nil {
		return nil, nil, frame.Usagef("%w", err)
	}
	return s, all, nil
}

// distinct returns the values in order, each once.
func distinct[T cmp.Ordered](values []T) []T {
	slices.Sort(values)
	return slices.Compact(values)
}

// commandLine returns the command with the flags that were given, for a shell.
func commandLine(cmd *cobra.Command) string {
	line := cmd.CommandPath()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		line += " --" + f.Name
		if f.Value.Type() != "bool" {
			line += " " + trace.ShellWord(f.Value.String())
		}
	})
	return line
}

// isSweepFile reports whether a sweep writes files of this name.
func isSweepFile(name string) bool {
	return name == "index.html" || name == "sweep.csv" ||
		slices.ContainsFunc(families(), func(f family) bool { return slices.Contains(sweep.ChartFiles(f.name), name) })
}
