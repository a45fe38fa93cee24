package model

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/simulation"
)

// replayOptions is recorded demand on a machine.
type replayOptions struct {
	*recordingOptions
	machine  ledger.MilliCPU // 0: not given
	order    simulation.Order
	recorded []simulation.Recorded
}

func newReplayOptions(cmd *cobra.Command) *replayOptions {
	r := &replayOptions{recordingOptions: newRecordingOptions(cmd)}
	frame.Var(r.flags, &r.machine, "cpus", "CPUS", "CPUs of the machine (default the sum of the limits; enough for one container alone)", frame.ParseAmount)
	frame.OneOf(r.flags, &r.order, "order", "how periods are drawn from a recording: in pieces, from end to end, or each by itself",
		simulation.Blocks, simulation.Replay, simulation.Independent)
	return r
}

// report returns a report without outcomes.
func (r *replayOptions) report(seed uint64) *simulation.Report {
	out := &simulation.Report{Seed: seed}
	if len(r.recorded) == 0 {
		return out
	}
	out.Recorded, out.Order = r.recorded, r.order
	for i := range r.recorded {
		k := &r.recorded[i]
		out.Warnings = append(out.Warnings, k.Warnings()...)
		if k.LimitChanges > 0 && r.limit == 0 {
			out.Warnings = append(out.Warnings, fmt.Sprintf("%s: its limit changed %d times; the last is taken", k.Group, k.LimitChanges))
		}
		if warning := k.BlockWarning(); warning != "" && out.Order == simulation.Blocks {
			out.Warnings = append(out.Warnings, warning)
		}
	}
	return out
}

// combinations reads the recordings and returns a combination for each number of groups and each
// burst, in this order.
func (r *replayOptions) combinations(ctx context.Context, stderr io.Writer, cgroups []int, bursts []report.Burst) ([]simulation.Combination, error) {
	groups, err := r.choose(ctx, stderr)
	if err != nil {
		return nil, err
	}
	if len(groups) > interference.MaxGroups {
		return nil, fmt.Errorf("%d groups were recorded, and at most %d are simulated: choose some with --group", len(groups), interference.MaxGroups)
	}
	if r.recorded, err = r.demands(ctx, groups); err != nil {
		return nil, err
	}
	for i := range r.recorded {
		k := &r.recorded[i]
		k.BlockLength, k.BlocksKeep = demand.BlockLength(k.CPUs)
	}
	if len(cgroups) == 0 {
		cgroups = []int{len(groups)}
	}
	var all []simulation.Combination
	for _, m := range cgroups {
		if m%len(groups) != 0 {
			return nil, frame.Usagef("--cgroups %d cannot be shared out evenly over %d recorded groups: take a multiple, or choose groups with --group", m, len(groups))
		}
		c, err := r.combination(m)
		if err != nil {
			return nil, err
		}
		for _, b := range bursts {
			c.Burst, c.Kinds = b, slices.Clone(c.Kinds)
			for i := range c.Kinds {
				c.Kinds[i].Burst = float64(b)
			}
			if m == 1 && r.machine == 0 {
				alone(&c)
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// combination returns the combination for m groups, without a burst.
func (r *replayOptions) combination(m int) (simulation.Combination, error) {
	c := simulation.Combination{Distribution: "trace", Cgroups: m}
	quotas, wanted := 0.0, 0.0
	for i := range r.recorded {
		k := &r.recorded[i]
		quota, err := r.quota(k, m)
		if err != nil {
			return c, err
		}
		if k.Mean >= quota {
			return c, tooMuch(k, quota, "raise --limit or --cpus, or take fewer --cgroups")
		}
		process, err := r.process(k, quota)
		if err != nil {
			return c, fmt.Errorf("%s: %w", k.Group, err)
		}
		count := m / len(r.recorded)
		quotas += float64(count) * quota
		wanted += float64(count) * k.Mean
		c.Kinds = append(c.Kinds, interference.Group{Count: count, Quota: quota, Demand: process})
	}
	c.Mean, c.Quota, c.Capacity = wanted/quotas, quotas/float64(m), quotas
	if r.machine > 0 {
		c.Capacity = r.machine.CPUs()
	}
	return c, nil
}

// quota returns the quota of one of m containers, in CPUs.
func (r *replayOptions) quota(k *simulation.Recorded, m int) (float64, error) {
	switch {
	case r.limit > 0:
		return r.limit.CPUs(), nil
	case k.Limit > 0:
		return k.Limit, nil
	case r.machine > 0:
		return r.machine.CPUs() / float64(m), nil
	}
	return 0, fmt.Errorf("%s has no recorded limit: say what quota a container is to have with --limit CPUS, or with --cpus CPUS what all of them share",
		k.Group)
}

// process returns the demand in multiples of the quota.
func (r *replayOptions) process(k *simulation.Recorded, quota float64) (demand.Process, error) {
	phases := k.InQuotas(quota)
	switch r.order {
	case simulation.Replay:
		return demand.NewReplay(phases...)
	case simulation.Independent:
		return independent(demand.NewEmpirical(slices.Concat(phases...)))
	}
	return demand.NewBlocks(k.BlockLength, phases...)
}
