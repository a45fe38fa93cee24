package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/internal/version"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/report/sweep"
)

func newSweep() *cobra.Command {
	cmd := &cobra.Command{
		Use: `sweep -o DIR [--force] [--distribution NAME[,NAME...]]
                         [--mean U,U,...] [--cgroups M,M,...]
                         [--burst B,B,...] [--periods N] [--precision P]
                         [--rule strict|published] [--seed S]`,
		Short: "Draw what burst does over load, containers and burst",
		Long: `Simulate every combination of distribution, mean, number of containers and
burst, and draw E[WCET] (downwards, so that up is better) and P(WCET = 1) over
the mean.

DIR gets index.html, which is all of it on one page, the charts as .svg and
.png, and sweep.csv with the numbers and their standard errors. It appears whole
or not at all. --force replaces a DIR that an earlier sweep has made.`,
		Example: `  pinfold simulate sweep -o sweep
  pinfold simulate sweep -o many --distribution lognormal --cgroups 40,80`,
		Args:                  noArguments,
		DisableFlagsInUseLine: true,
	}
	q := &sweeping{
		demand:  newDemandFlags(cmd),
		means:   newValues("U,U,...", ".1,.2,.3,.4,.5,.6,.65,.7,.75,.8,.85,.9", parseNumber),
		cgroups: newValues("M,M,...", "10,20,30", parseCount),
		bursts:  newValues("B,B,...", "100%,200%,inf", parseBurst),
		effort:  effortFlags(cmd),
	}
	flags := cmd.Flags()
	named := flags.Lookup("distribution")
	named.Usage = "of the demand in a period: `NAMES` of " + familyNames()
	named.DefValue, q.demand.name = defaultDistributions, defaultDistributions
	flags.Var(q.means, "mean", "demand per period, on average, in multiples of the quota")
	flags.Var(q.cgroups, "cgroups", fmt.Sprintf("how many share the machine; %d numbers at most", sweep.MostCgroups))
	flags.Var(q.bursts, "burst", fmt.Sprintf("unused quota that each may save up, as a percentage of its quota such as 200%%; inf is unlimited; %d at most", sweep.MostBursts))
	flags.StringVarP(&q.dir, "output", "o", "", "make the folder `DIR`, which must not exist yet")
	flags.BoolVar(&q.force, "force", false, "replace the sweep that is in DIR")
	cmd.RunE = asked(q.run)
	return cmd
}

const defaultDistributions = "exponential,pareto"

// sweeping is what the flags ask for.
type sweeping struct {
	demand  *demandFlags
	means   *values[float64]
	cgroups *values[int]
	bursts  *values[burst]
	effort  *effort
	dir     string
	force   bool
}

func (q *sweeping) run(cmd *cobra.Command, _ []string) error {
	all, err := q.ask(cmd)
	if err != nil {
		return err
	}
	target, err := newFolder(q.dir, q.force, sweepFile)
	if err != nil {
		return err
	}
	// From here to the end, so that an interruption leaves nothing behind at any time.
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	done, err := q.effort.simulateAll(ctx, cmd.ErrOrStderr(), all)
	if err != nil {
		return q.unwritten(ctx, err, len(done), len(all))
	}
	s, err := q.sweep(cmd, done)
	if err != nil {
		return err
	}
	files, err := s.Files()
	if err != nil {
		return err
	}
	if err := target.write(ctx, files); err != nil {
		return q.unwritten(ctx, err, len(done), len(all))
	}
	return q.tell(cmd, s, files)
}

// unwritten says that an interruption left nothing.
func (q *sweeping) unwritten(ctx context.Context, err error, done, all int) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("interrupted: %d of %d combinations were done; %s was not written", done, all, q.dir)
}

// tell says what there is now, and what to doubt.
func (q *sweeping) tell(cmd *cobra.Command, s *sweep.Sweep, files []sweep.File) error {
	if n := s.Uncertain(); n > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "pinfold: %d of %d points are not certain: they are hollow in the charts, and the page says why; take more --periods\n",
			n, len(s.Points))
	}
	for _, f := range files {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s/%s\n", strings.TrimRight(q.dir, "/"), f.Name); err != nil {
			return fmt.Errorf("print the result: %w", err)
		}
	}
	return nil
}

// ask returns the combinations, all of which have an answer.
func (q *sweeping) ask(cmd *cobra.Command) ([]combination, error) {
	q.means.each, q.cgroups.each, q.bursts.each = once(q.means.each), once(q.cgroups.each), once(q.bursts.each)
	switch {
	case q.dir == "":
		return nil, &wrongUsage{"-o is missing: name a folder for the page, the charts and the numbers, as in -o sweep"}
	case len(q.cgroups.each) > sweep.MostCgroups:
		return nil, &wrongUsage{fmt.Sprintf("--cgroups has %d numbers: a chart can tell %d of them apart", len(q.cgroups.each), sweep.MostCgroups)}
	case len(q.bursts.each) > sweep.MostBursts:
		return nil, &wrongUsage{fmt.Sprintf("--burst has %d numbers: a chart can tell %d of them apart", len(q.bursts.each), sweep.MostBursts)}
	}
	if err := q.effort.check(cmd); err != nil {
		return nil, err
	}
	var all []combination
	for _, name := range q.names() {
		some, err := q.combinations(cmd.Flags(), name)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	if err := q.effort.checkAll(all); err != nil {
		return nil, &wrongUsage{err.Error()}
	}
	return all, nil
}

// names are those of the distributions, each once, in the order given.
func (q *sweeping) names() []string {
	var names []string
	for name := range strings.SplitSeq(q.demand.name, ",") {
		if name = strings.TrimSpace(name); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// once returns the values in order, each once.
func once[T float64 | int | burst](values []T) []T {
	slices.Sort(values)
	return slices.Compact(values)
}

// combinations are those of one distribution.
func (q *sweeping) combinations(flags *pflag.FlagSet, name string) ([]combination, error) {
	one, err := q.only(flags, name)
	if err != nil {
		return nil, err
	}
	alike := scenario{demand: one, means: q.means, cgroups: q.cgroups, bursts: q.bursts}
	return alike.drawn()
}

// only returns the flags of one distribution, with the parameters that it has. A parameter
// that no distribution has is refused.
func (q *sweeping) only(flags *pflag.FlagSet, name string) (*demandFlags, error) {
	one := newDemandFlags(&cobra.Command{})
	one.name = name
	if _, err := one.family(); err != nil {
		return nil, err
	}
	var refused error
	flags.Visit(func(given *pflag.Flag) {
		owners := slices.DeleteFunc(families(), func(f family) bool { return !slices.Contains(f.parameters, given.Name) })
		isOwner := func(name string) bool {
			return slices.ContainsFunc(owners, func(f family) bool { return f.name == name })
		}
		switch {
		case len(owners) == 0: // no parameter of a distribution
		case isOwner(name):
			refused = one.flags.Set(given.Name, given.Value.String())
		case !slices.ContainsFunc(q.names(), isOwner):
			refused = &wrongUsage{fmt.Sprintf("--%s is for --distribution %s, and not for %s", given.Name, owners[0].name, q.demand.name)}
		}
	})
	return one, refused
}

// sweep returns what was found, to be written.
func (q *sweeping) sweep(cmd *cobra.Command, done []simulated) (*sweep.Sweep, error) {
	rule, err := interference.ParseRule(q.effort.rule.value)
	if err != nil {
		return nil, err
	}
	s := &sweep.Sweep{Command: commandLine(cmd), Program: "pinfold " + version.This().Version, Rule: rule, Seed: q.effort.seed}
	for _, name := range q.names() {
		one, err := q.only(cmd.Flags(), name)
		if err != nil {
			return nil, err
		}
		s.Distributions = append(s.Distributions, sweep.Distribution{Name: name, Label: one.label()})
	}
	for _, d := range done {
		s.Points = append(s.Points, sweep.Point{Distribution: d.name, Mean: d.mean, Cgroups: d.cgroups, Burst: d.burst.quotas(), Result: d.Result})
	}
	return s, nil
}

// label describes the demand with its parameters.
func (f *demandFlags) label() string {
	known, err := f.family()
	if err != nil {
		return f.name
	}
	var parameters []string
	for _, name := range known.parameters {
		flag := f.flags.Lookup(name)
		switch {
		case name == "shape" && !flag.Changed:
			parameters = append(parameters, fmt.Sprintf("shape %v", known.shape))
		case name != "bound" || flag.Changed:
			parameters = append(parameters, name+" "+flag.Value.String())
		}
	}
	label := strings.ToUpper(f.name[:1]) + f.name[1:] + " demand"
	if len(parameters) > 0 {
		label += " (" + strings.Join(parameters, ", ") + ")"
	}
	return label
}

// commandLine is the command with the flags that were given.
func commandLine(cmd *cobra.Command) string {
	line := cmd.CommandPath()
	cmd.Flags().Visit(func(f *pflag.Flag) {
		line += " --" + f.Name
		if f.Value.Type() != "bool" {
			line += " " + shellWord(f.Value.String())
		}
	})
	return line
}

// shellWord quotes a word where a shell would take it for something else.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("-+./,:=@%", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// sweepFile says whether a sweep makes files of this name.
func sweepFile(name string) bool {
	if name == "index.html" || name == "sweep.csv" {
		return true
	}
	for _, f := range families() {
		for _, file := range sweep.ChartFiles(f.name) {
			if name == file {
				return true
			}
		}
	}
	return false
}
