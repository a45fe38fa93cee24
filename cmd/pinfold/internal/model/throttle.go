package model

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/simulation"
)

// NewThrottle returns the subcommand "throttle".
func NewThrottle() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "throttle --distribution NAME --mean SHARE [flags]",
		Short: "Compute how often a limit throttles, for each burst",
		Long: `Compute how often one container is throttled under its limit, for each burst,
with proven bounds. The demands of periods are independent, which those of
recordings are not: 'pinfold simulate FILE --limit CPUS' answers for these, in
their order, and for correlated demand.`,
		Example: `  pinfold throttle --distribution exponential --mean 70% --burst 0,100%,200%
  pinfold throttle --distribution pareto --mean 0.5 -o json`,
		Args: notRecordings,
	}
	o := &throttleOptions{
		distribution: newDistributionOptions(cmd, independentFamilies()),
		bursts:       frame.NewList("SHARE,...", "0,100%", frame.ParseBurst),
		output:       frame.OutputFlag(cmd),
	}
	frame.ShareVar(cmd.Flags(), &o.mean, 1, "mean", "demand per period, on average, as a share of the quota")
	cmd.Flags().Var(o.bursts, "burst", "unused quota that may be saved, as a share of the quota such as 100%; inf is unlimited")
	cmd.Flags().IntVar(&o.steps, "steps", lindley.DefaultSteps, "points in one quota, an even number `N`: more make the bounds narrower, and take longer")
	cmd.RunE = o.run
	return cmd
}

// notRecordings rejects arguments. Recorded periods depend on each other, so bounds that assume
// independent ones would not contain what the recording shows.
func notRecordings(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return frame.Usagef("%s: periods of a recording are not independent, as is assumed here: use 'pinfold simulate %[1]s --limit CPUS'", report.Printable(args[0]))
	}
	return nil
}

// throttleOptions is what the flags request.
type throttleOptions struct {
	distribution *distributionOptions
	mean         float64 // of the quota
	bursts       *frame.List[report.Burst]
	steps        int
	output       *frame.Format
}

func (o *throttleOptions) run(cmd *cobra.Command, _ []string) error {
	d, err := o.demand()
	if err != nil {
		return err
	}
	if o.steps < 4 || o.steps > 1<<16 || o.steps%2 != 0 {
		return frame.Usagef("--steps %d: must be an even number from 4 to %d", o.steps, 1<<16)
	}
	solution, err := o.solve(d)
	switch {
	case errors.Is(err, lindley.ErrUncertain):
		return fmt.Errorf("%w; or ask 'pinfold simulate --cgroups 1', which estimates it", err)
	case err != nil:
		return err
	}
	about := fmt.Sprintf("%s, mean %s of the quota, in independent periods", o.distribution.names, quantity.Share(o.mean))
	answers := make([]simulation.Throttling, len(o.bursts.Each))
	for i, s := range solution.Throttling {
		answers[i] = simulation.Throttling{Demand: about, Burst: o.bursts.Each[i], Throttling: s,
			Figures: solution.Estimate.Name, Bounds: solution.Bounds.String()}
	}
	if *o.output == frame.JSON {
		return frame.PrintJSON(cmd.OutOrStdout(), answers)
	}
	return simulation.PrintThrottling(cmd.OutOrStdout(), answers)
}

// solve computes bounds and, if the demand has a density, an estimate. The estimate cannot handle
// atoms; for them it is the midpoint of the bounds.
func (o *throttleOptions) solve(d demand.Distribution) (lindley.Solution, error) {
	var bursts []float64
	for _, b := range o.bursts.Each {
		bursts = append(bursts, float64(b))
	}
	if _, dense := d.(lindley.Unimodal); dense {
		return lindley.Solve(d, bursts, o.steps)
	}
	bounds, method, err := lindley.Bounds(d, bursts, o.steps)
	return lindley.Solution{Throttling: bounds, Bounds: method, Estimate: lindley.Method{Name: "midpoint of the bounds"}}, err
}

// demand returns the demand of a period.
func (o *throttleOptions) demand() (demand.Distribution, error) {
	if o.distribution.names == "" {
		return nil, frame.Usagef("no demand given: use --distribution NAME, which is %s", o.distribution.familyText())
	}
	if err := o.distribution.checkMean(); err != nil {
		return nil, err
	}
	families, err := o.distribution.families(o.distribution.names)
	if err != nil {
		return nil, err
	}
	process, err := o.distribution.process(families[0], o.mean)
	if err != nil {
		return nil, err
	}
	return process.(demand.Independent).Distribution, nil
}
