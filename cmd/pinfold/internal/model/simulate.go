// Package model implements the subcommands that predict: "simulate" ([NewSimulate]) and its
// "sweep", "throttle" ([NewThrottle]) and "advise" ([NewAdvise]). Demand comes from recordings
// (recordingOptions) or from distributions (distributionOptions).
package model

import (
	"errors"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/simulation"
)

// NewSimulate returns the subcommand "simulate".
func NewSimulate() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate --distribution NAME --mean SHARE --cgroups M [flags]\nsimulate FILE... [flags]\nsimulate sweep -o DIR [flags]",
		Short: "Show what burst does to the neighbours",
		Long: `Simulate containers that share a machine. Each has a quota and may save unused
quota for later (burst). With --distribution the demand of each period is
random, and the quotas are equal parts of the machine. With recordings it is
that of their containers, and the quotas are --limit, or as recorded, or equal
parts of --cpus. One container without --cpus never waits for CPUs.

The WCET of a period is the number of periods until the machine has done what
quotas and bursts let through in it: 1 when it does that in the same period.
What quotas throttle does not count; the column 'throttled' says how often.`,
		Example: `  pinfold simulate --distribution exponential --mean 0.5,70% --cgroups 10,20
  pinfold simulate --distribution pareto --mean 0.7 --cgroups 20 --burst 200%,inf
  pinfold simulate web.parquet --cgroups 10 --burst 200% --cpus 4`,
	}
	o := &simulateOptions{
		distribution: newDistributionOptions(cmd, families()),
		replay:       newReplayOptions(cmd),
		means:        frame.NewList("SHARE,...", "", frame.ParsePart),
		cgroups:      frame.NewList("M,M,...", "", frame.ParseCount),
		bursts:       frame.NewList("SHARE,...", "0,100%", frame.ParseBurst),
		effort:       newEffortOptions(cmd),
		output:       frame.OutputFlag(cmd),
	}
	cmd.Flags().Var(o.means, "mean", "demand per period, on average, as a share of the quota")
	cmd.Flags().Var(o.cgroups, "cgroups", "how many containers share the machine (by default one of each recorded)")
	cmd.Flags().Var(o.bursts, "burst", "unused quota that each may save, as a share of its quota such as 200%; inf is unlimited")
	cmd.Args, cmd.ValidArgsFunction = o.replay.take, files.Complete
	cmd.RunE = o.run
	cmd.AddCommand(newSweep())
	return cmd
}

// simulateOptions is what the flags request.
type simulateOptions struct {
	distribution *distributionOptions
	replay       *replayOptions
	means        *frame.List[quantity.Share]
	cgroups      *frame.List[int]
	bursts       *frame.List[report.Burst]
	effort       *effortOptions
	output       *frame.Format
}

func (o *simulateOptions) run(cmd *cobra.Command, _ []string) error {
	all, err := o.combinations(cmd)
	if err != nil {
		return err
	}
	stdout, stderr := cmd.OutOrStdout(), cmd.ErrOrStderr()
	found := o.replay.report(o.effort.seed)
	found.Asked = o.replay.asked(all)
	for _, warning := range found.Warnings {
		frame.Notef(stderr, "%s", warning)
	}
	found.Outcomes, err = o.effort.simulateAll(cmd.Context(), stderr, all)
	for i := range found.Outcomes {
		for _, warning := range found.Outcomes[i].Warnings {
			frame.Notef(stderr, "%s: %s", &found.Outcomes[i].Combination, warning)
		}
	}
	switch {
	case len(found.Outcomes) == 0:
		return err
	case *o.output == frame.JSON:
		return errors.Join(err, frame.PrintJSON(stdout, found.JSON()))
	}
	return errors.Join(err, found.Text(stdout))
}

// combinations returns the combinations to simulate. All of them are valid.
func (o *simulateOptions) combinations(cmd *cobra.Command) ([]simulation.Combination, error) {
	if err := o.effort.check(cmd); err != nil {
		return nil, err
	}
	if err := o.replay.checkSource(o.distribution, "cpus", "order"); err != nil {
		return nil, err
	}
	if len(o.replay.files) > 0 {
		all, err := o.replay.combinations(cmd.Context(), cmd.ErrOrStderr(), o.cgroups.Each, o.bursts.Each)
		if err != nil {
			return nil, err
		}
		return all, o.effort.checkAll(all)
	}
	if len(o.cgroups.Each) == 0 {
		return nil, frame.Usagef("--cgroups is missing: say how many containers share the machine, as in --cgroups 10")
	}
	families, err := o.distribution.families(o.distribution.names)
	if err != nil {
		return nil, err
	}
	all, err := o.drawn(families[0])
	if err != nil {
		return nil, err
	}
	if err := o.effort.checkAll(all); err != nil {
		return nil, frame.Usagef("%w", err)
	}
	return all, nil
}

// drawn returns a combination of random demand for each mean, number of groups and burst, in this
// order.
func (o *simulateOptions) drawn(known family) ([]simulation.Combination, error) {
	var all []simulation.Combination
	for _, share := range o.means.Each {
		mean := float64(share)
		process, err := o.distribution.process(known, mean)
		if err != nil {
			return nil, err
		}
		for _, m := range o.cgroups.Each {
			quota := 1 / float64(m)
			for _, b := range o.bursts.Each {
				c := simulation.Combination{
					Distribution: known.name, Mean: mean, Cgroups: m, Burst: b, Quota: quota, Capacity: 1,
					Kinds: []interference.Group{{Count: m, Quota: quota, Burst: float64(b), Demand: process}},
				}
				if m == 1 {
					alone(&c)
				}
				all = append(all, c)
			}
		}
	}
	return all, nil
}
