package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/simulation"
)

// NewThrottle returns the subcommand "throttle".
func NewThrottle() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "throttle --distribution NAME --mean U [flags]\nthrottle FILE... [flags]",
		Short: "Compute how often a limit throttles, for each burst",
		Long: `Compute how often one container is throttled under its limit, for each burst,
with proven bounds. The demands of periods are assumed to be independent;
'pinfold simulate' keeps the order of a recording, and simulates correlated
demand.`,
		Example: `  pinfold throttle --distribution exponential --mean 0.7 --burst 0,100%,200%
  pinfold throttle web.parquet --limit 2 -o json`,
		ValidArgsFunction: files.Complete,
	}
	o := &throttleOptions{
		distribution: newDistributionOptions(cmd),
		recordings:   newRecordingOptions(cmd),
		mean:         frame.NewList("U", "", frame.ParseNumber),
		bursts:       frame.NewList("B,B,...", "0,100%", frame.ParseBurst),
		output:       frame.OutputFlag(cmd),
	}
	cmd.Flags().Var(o.mean, "mean", "demand per period, on average, in multiples of the quota")
	cmd.Flags().Var(o.bursts, "burst", "unused quota that may be saved, as a percentage of the quota such as 100%; inf is unlimited")
	cmd.Flags().IntVar(&o.steps, "steps", lindley.DefaultSteps, "points in one quota, an even number `N`: more make the bounds narrower, and take longer")
	cmd.Args, cmd.RunE = o.recordings.take, o.run
	return cmd
}

// throttleOptions is what the flags request.
type throttleOptions struct {
	distribution *distributionOptions
	recordings   *recordingOptions
	mean         *frame.List[float64]
	bursts       *frame.List[report.Burst]
	steps        int
	output       *frame.Format
	warnings     []string // about the recording
}

func (o *throttleOptions) run(cmd *cobra.Command, _ []string) error {
	about, d, err := o.demand(cmd.Context(), cmd.ErrOrStderr())
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
	answers := make([]simulation.Throttling, len(o.bursts.Each))
	for i, s := range solution.Throttling {
		answers[i] = simulation.Throttling{Demand: about + ", in independent periods", Burst: o.bursts.Each[i], Throttling: s,
			Figures: solution.Estimate.Name, Bounds: solution.Bounds.String(), Warnings: o.warnings}
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
		bursts = append(bursts, b.Quotas())
	}
	if _, dense := d.(lindley.Unimodal); dense {
		return lindley.Solve(d, bursts, o.steps)
	}
	bounds, method, err := lindley.Bounds(d, bursts, o.steps)
	return lindley.Solution{Throttling: bounds, Bounds: method, Estimate: lindley.Method{Name: "midpoint of the bounds"}}, err
}

// demand returns the demand and its description.
func (o *throttleOptions) demand(ctx context.Context, stderr io.Writer) (string, demand.Distribution, error) {
	if err := o.recordings.checkSource(o.distribution, o.mean.Each); err != nil {
		return "", nil, err
	}
	if len(o.recordings.files) > 0 {
		return o.recorded(ctx, stderr)
	}
	if len(o.mean.Each) > 1 {
		return "", nil, frame.Usagef("--mean: one is enough")
	}
	mean := o.mean.Each[0]
	families, err := o.distribution.families(o.distribution.names)
	if err != nil {
		return "", nil, err
	}
	process, err := o.distribution.process(families[0], mean)
	if err != nil {
		return "", nil, err
	}
	single, ok := process.(demand.Independent)
	if !ok {
		return "", nil, frame.Usagef("--distribution %s has dependent periods: use 'pinfold simulate --cgroups 1'", o.distribution.names)
	}
	return fmt.Sprintf("%s, mean %s of the quota", o.distribution.names, quantity.Share(mean)), single.Distribution, nil
}

// recorded returns the demand of one recorded group, in independent periods.
func (o *throttleOptions) recorded(ctx context.Context, stderr io.Writer) (string, demand.Distribution, error) {
	groups, err := o.recordings.choose(ctx, stderr)
	if err != nil {
		return "", nil, err
	}
	if len(groups) > 1 {
		return "", nil, fmt.Errorf("%d groups were recorded, such as %s in %s and %s in %s: choose one with --group, or name one file",
			len(groups), groups[0].Path, groups[0].File, groups[1].Path, groups[1].File)
	}
	all, err := o.recordings.demands(ctx, groups)
	if err != nil {
		return "", nil, err
	}
	r := &all[0]
	quota := o.recordings.limit.CPUs()
	if quota == 0 {
		quota = r.Limit
	}
	switch {
	case quota == 0:
		return "", nil, fmt.Errorf("%s has no recorded limit: say with --limit CPUS which one you ask about", r.Group)
	case r.Mean >= quota:
		return "", nil, tooMuch(r, quota, "raise --limit")
	}
	o.warnings = r.Warnings()
	for _, warning := range o.warnings {
		frame.Notef(stderr, "%s", warning)
	}
	d, err := demand.NewEmpirical(slices.Concat(r.InQuotas(quota)...))
	return fmt.Sprintf("%s, mean %s of a quota of %s CPUs", r.Group, quantity.Share(r.Mean/quota), quantity.CPUs(quota).Fixed()), d, err
}
