package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference/lindley"
	"pinfold.dev/pinfold/core/quantity"
)

func newThrottle() *cobra.Command {
	cmd := &cobra.Command{
		Use: `throttle --distribution NAME --mean U [--burst B[,B...]] [--steps N]
                   [-o text|json]
  pinfold throttle --trace FILE [--group CGROUP] [--limit CPUS] ...`,
		Short: "Say how often a limit throttles, for each burst",
		Long: `Compute how often one container is throttled under its limit, for each burst,
with proven bounds. Periods are taken as independent; 'pinfold simulate' keeps
the order of a recording, and does other demand that remembers.`,
		Example: `  pinfold throttle --distribution exponential --mean 0.7 --burst 0,100%,200%
  pinfold throttle --trace web.parquet --limit 2 -o json`,
		DisableFlagsInUseLine: true,
		Args:                  noArguments,
	}
	t := &throttleQuestion{demand: newDemandFlags(cmd), recordings: recordingFlags(cmd), bursts: newValues("B,B,...", "0,100%", parseBurst), output: outputFlag(cmd)}
	t.mean = newValues("U", "", parseNumber)
	cmd.Flags().Var(t.mean, "mean", "demand per period, on average, in multiples of the quota")
	cmd.Flags().Var(t.bursts, "burst", "unused quota that may be saved up, as a percentage of the quota such as 100%; inf is unlimited")
	cmd.Flags().IntVar(&t.steps, "steps", lindley.DefaultSteps, "points in one quota, an even number `N`: more make the bounds narrower, and take longer")
	cmd.RunE = asked(t.run)
	return cmd
}

// throttleQuestion is what is asked about one container.
type throttleQuestion struct {
	demand     *demandFlags
	recordings *recordings
	mean       *values[float64]
	bursts     *values[burst]
	steps      int
	output     *choice
}

// throttling is the answer for one burst, as JSON.
type throttling struct {
	Burst       burst   `json:"burst"`
	Probability float64 `json:"probability"`
	Lower       float64 `json:"lower"`
	Upper       float64 `json:"upper"`
}

func (t *throttleQuestion) run(cmd *cobra.Command, _ []string) error {
	about, d, err := t.distribution(cmd.Context(), cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if t.steps < 4 || t.steps > 1<<16 || t.steps%2 != 0 {
		return &wrongUsage{fmt.Sprintf("--steps %d: must be an even number from 4 to %d", t.steps, 1<<16)}
	}
	solution, err := solve(d, t.bursts.each, t.steps)
	switch {
	case errors.Is(err, lindley.ErrUncertain):
		return fmt.Errorf("%w; or ask 'pinfold simulate --cgroups 1', which estimates it", err)
	case err != nil:
		return err
	}
	answers := make([]throttling, len(t.bursts.each))
	for i, s := range solution.Throttling {
		answers[i] = throttling{t.bursts.each[i], s.Probability, s.Lower, s.Upper}
	}
	if t.output.value == outJSON {
		return printJSON(cmd.OutOrStdout(), answers)
	}
	return printThrottling(cmd.OutOrStdout(), about, answers, solution)
}

// solve computes bounds, and where demand has a density the estimate, too. Atoms are what the
// estimate is no good for; then it is the bounds' midpoint.
func solve(d demand.Distribution, bursts []burst, steps int) (lindley.Solution, error) {
	var at []float64
	for _, b := range bursts {
		at = append(at, b.quotas())
	}
	if _, dense := d.(lindley.Unimodal); dense {
		return lindley.Solve(d, at, steps)
	}
	bounds, method, err := lindley.Bounds(d, at, steps)
	return lindley.Solution{Throttling: bounds, Bounds: method, Estimate: lindley.Method{Name: "midpoint of the bounds"}}, err
}

// distribution returns the demand, and what it is in words.
func (t *throttleQuestion) distribution(ctx context.Context, stderr io.Writer) (string, demand.Distribution, error) {
	drawn, fromTrace := t.demand.given("mean"), t.recordings.given()
	switch {
	case len(t.recordings.files) > 0 && drawn != "":
		return "", nil, &wrongUsage{fmt.Sprintf("--trace and --%s both say what the demand is: use one of them", drawn)}
	case len(t.recordings.files) > 0:
		return t.recorded(ctx, stderr)
	case fromTrace != "":
		return "", nil, &wrongUsage{fmt.Sprintf("--%s is about recordings: name one with --trace", fromTrace)}
	case t.demand.name == "":
		return "", nil, &wrongUsage{"no demand given: use --trace FILE, or --distribution NAME, which is " + familyNames()}
	case len(t.mean.each) == 0:
		return "", nil, &wrongUsage{"--mean is missing: say what a container wants per period, as in --mean 0.7 for 70% of its quota"}
	case len(t.mean.each) > 1:
		return "", nil, &wrongUsage{"--mean: one is enough"}
	}
	mean := t.mean.each[0]
	process, err := t.demand.process(mean)
	if err != nil {
		return "", nil, err
	}
	independent, ok := process.(demand.Independent)
	if !ok {
		return "", nil, &wrongUsage{fmt.Sprintf("--distribution %s remembers what was before: use 'pinfold simulate --cgroups 1'", t.demand.name)}
	}
	return fmt.Sprintf("%s, mean %s of the quota", t.demand.name, quantity.Share(mean)), independent.Distribution, nil
}

// recorded returns the demand of one recorded group, each period by itself.
func (t *throttleQuestion) recorded(ctx context.Context, stderr io.Writer) (string, demand.Distribution, error) {
	if err := t.recordings.check(); err != nil {
		return "", nil, err
	}
	groups, err := t.recordings.choose(ctx, stderr)
	if err != nil {
		return "", nil, err
	}
	if len(groups) > 1 {
		return "", nil, fmt.Errorf("%d groups were recorded, such as %s: choose one with --group", len(groups), groups[0].what())
	}
	all, err := t.recordings.demands(ctx, groups)
	if err != nil {
		return "", nil, err
	}
	r := &all[0]
	quota := t.recordings.limit.cpus()
	if quota == 0 {
		quota = r.limit
	}
	switch {
	case quota == 0:
		return "", nil, fmt.Errorf("%s was recorded without a limit: say with --limit CPUS which one you ask about", r.what())
	case r.mean >= quota:
		return "", nil, r.tooMuch(quota, "raise --limit")
	}
	for _, doubt := range r.doubts() {
		fmt.Fprintln(stderr, "pinfold:", doubt)
	}
	d, err := demand.NewEmpirical(r.samples(quota))
	return fmt.Sprintf("%s, mean %s of a quota of %s CPUs", r.what(), quantity.Share(r.mean/quota), cpus(quota)), d, err
}
