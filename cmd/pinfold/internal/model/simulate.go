// Package model implements the subcommands that predict: "simulate" ([NewSimulate]) and its
// "sweep", "throttle" ([NewThrottle]) and "advise" ([NewAdvise]). Demand comes from recordings
// (selection, recordings) or from distributions (distributionFlags).
package model

import (
	"errors"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/internal/frame"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/simulation"
)

// NewSimulate returns the subcommand "simulate".
func NewSimulate() *cobra.Command {
	cmd := &cobra.Command{
		Use: `simulate --distribution NAME --mean U[,U...] --cgroups M[,M...]
                   [--burst B[,B...]] [--periods N] [--precision P]
                   [--rule strict|published] [--seed S] [-o text|json]
  pinfold simulate --trace FILE... [--cgroups M[,M...]] [--cpus CPUS]
                   [--limit CPUS] [--order blocks|replay|independent] ...`,
		Short: "Show what burst does to the neighbours",
		Long: `Simulate containers that share a machine. Each has a quota and may save unused
quota for later (burst). With --distribution the demand of each period is
random, and the quotas are equal parts of the machine. With --trace it is that
of a recorded container, and the quotas are --limit, or equal parts of --cpus,
or as recorded.

The WCET of a period is the number of periods until all demand of that period is
served: 1 when the machine serves it in the same period.`,
		Example: `  pinfold simulate --distribution exponential --mean 0.5,70% --cgroups 10,20
  pinfold simulate --distribution pareto --mean 0.7 --cgroups 20 --burst 200%,inf
  pinfold simulate --trace web.parquet --cgroups 10 --burst 200% --cpus 4`,
	}
	s := &scenario{
		distribution: newDistributionFlags(cmd),
		replay:       replayFlags(cmd),
		means:        frame.NewList("U,U,...", "", frame.ParseNumber),
		cgroups:      frame.NewList("M,M,...", "", frame.ParseCount),
		bursts:       frame.NewList("B,B,...", "0,100%", frame.ParseBurst),
		effort:       effortFlags(cmd),
		output:       frame.OutputFlag(cmd),
	}
	cmd.Flags().Var(s.means, "mean", "demand per period, on average, in multiples of the quota")
	cmd.Flags().Var(s.cgroups, "cgroups", "how many containers share the machine (with --trace by default one of each recorded)")
	cmd.Flags().Var(s.bursts, "burst", "unused quota that each may save, as a percentage of its quota such as 200%; inf is unlimited")
	cmd.Args = s.moreFiles
	cmd.RunE = s.run
	cmd.AddCommand(newSweep())
	return cmd
}

// scenario is what the flags request.
type scenario struct {
	distribution *distributionFlags
	replay       *replay
	means        *frame.List[float64]
	cgroups      *frame.List[int]
	bursts       *frame.List[report.Burst]
	effort       *effort
	output       *frame.Format
}

// moreFiles adds arguments to the files of --trace.
func (s *scenario) moreFiles(cmd *cobra.Command, args []string) error {
	if len(s.replay.files) == 0 {
		return frame.NoArguments(cmd, args)
	}
	s.replay.files = append(s.replay.files, args...)
	return nil
}

func (s *scenario) run(cmd *cobra.Command, _ []string) error {
	all, err := s.combinations(cmd)
	if err != nil {
		return err
	}
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	found := s.replay.report(s.effort.seed)
	for _, warning := range found.Warnings {
		frame.Notef(stderr, "%s", warning)
	}
	found.Outcomes, err = s.effort.simulateAll(cmd.Context(), stderr, all)
	for i := range found.Outcomes {
		for _, warning := range found.Outcomes[i].Warnings {
			frame.Notef(stderr, "%s: %s", &found.Outcomes[i].Combination, warning)
		}
	}
	switch {
	case len(found.Outcomes) == 0:
		return err
	case *s.output == frame.JSON:
		return errors.Join(err, frame.PrintJSON(stdout, found.JSON()))
	}
	return errors.Join(err, found.Text(stdout))
}

// combinations returns the combinations to simulate. All of them are valid.
func (s *scenario) combinations(cmd *cobra.Command) ([]simulation.Combination, error) {
	if err := s.effort.check(cmd); err != nil {
		return nil, err
	}
	if err := s.replay.checkSource(s.distribution, s.means.Each, "cpus", "order"); err != nil {
		return nil, err
	}
	if len(s.replay.files) > 0 {
		all, err := s.replay.combinations(cmd.Context(), cmd.ErrOrStderr(), s.cgroups.Each, s.bursts.Each)
		if err != nil {
			return nil, err
		}
		return all, s.effort.checkAll(all)
	}
	if len(s.cgroups.Each) == 0 {
		return nil, frame.Usagef("--cgroups is missing: say how many containers share the machine, as in --cgroups 10")
	}
	families, err := s.distribution.families(s.distribution.names)
	if err != nil {
		return nil, err
	}
	all, err := s.drawn(families[0])
	if err != nil {
		return nil, err
	}
	if err := s.effort.checkAll(all); err != nil {
		return nil, frame.Usagef("%w", err)
	}
	return all, nil
}

// drawn returns a combination of random demand for each mean, number of groups and burst, in this
// order.
func (s *scenario) drawn(known family) ([]simulation.Combination, error) {
	var all []simulation.Combination
	for _, mean := range s.means.Each {
		process, err := s.distribution.process(known, mean)
		if err != nil {
			return nil, err
		}
		for _, m := range s.cgroups.Each {
			quota := 1 / float64(m)
			for _, b := range s.bursts.Each {
				all = append(all, simulation.Combination{
					Distribution: known.name, Mean: mean, Cgroups: m, Burst: b, Quota: quota, Capacity: 1,
					Kinds: []interference.Group{{Count: m, Quota: quota, Burst: b.Quotas(), Demand: process}},
				})
			}
		}
	}
	return all, nil
}
