package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/core/interference"
)

// The words of --order.
const (
	orderBlocks      = "blocks"
	orderReplay      = "replay"
	orderIndependent = "independent"
)

// replayed is demand out of recordings, and the machine that is to serve it.
type replayed struct {
	*recordings
	machine cpuAmount
	order   *choice
	kinds   []recorded
	blocks  []blockLength
}

// blockLength is the mean length of the pieces of a recording, in periods.
type blockLength struct {
	periods float64
	enough  bool // and not cut short by the recording's length
}

func replayFlags(cmd *cobra.Command) *replayed {
	r := &replayed{recordings: recordingFlags(cmd), order: oneOf(orderBlocks, orderReplay, orderIndependent)}
	r.flags.Var(&r.machine, "cpus", "CPUs of the machine, in equal parts the quotas if there is no --limit (default the sum of the quotas)")
	r.flags.Var(r.order, "order", "how periods are drawn from a recording: in pieces, from end to end, or each by itself")
	return r
}

// read reads the recordings, and says what they do not show.
func (r *replayed) read(ctx context.Context, stderr io.Writer) error {
	if err := r.check(); err != nil {
		return err
	}
	groups, err := r.choose(ctx, stderr)
	if err != nil {
		return err
	}
	if len(groups) > interference.MaxGroups {
		return fmt.Errorf("%d groups were recorded, and at most %d are simulated: choose some with --group", len(groups), interference.MaxGroups)
	}
	if r.kinds, err = r.demands(ctx, groups); err != nil {
		return err
	}
	for _, k := range r.kinds {
		length, enough := demand.BlockLength(k.CPUs)
		r.blocks = append(r.blocks, blockLength{length, enough})
	}
	return nil
}

// doubts are about all recordings.
func (r *replayed) doubts() []string {
	var out []string
	for i, k := range r.kinds {
		out = append(out, k.doubts()...)
		if k.limitChanges > 0 && r.limit == 0 && r.machine == 0 {
			out = append(out, fmt.Sprintf("%s: its limit changed %d times; the last is taken", k.what(), k.limitChanges))
		}
		if !r.blocks[i].enough && r.order.value == orderBlocks && len(k.CPUs) >= fewPeriods {
			out = append(out, fmt.Sprintf("%s: its demand is correlated for so long that pieces of a twentieth of the recording (%.0f periods) do not keep all of it; record for longer",
				k.what(), r.blocks[i].periods))
		}
	}
	return out
}

// combinations are each number of groups with each burst, in this order.
func (r *replayed) combinations(cgroups []int, bursts []burst) ([]combination, error) {
	if len(cgroups) == 0 {
		cgroups = []int{len(r.kinds)}
	}
	var all []combination
	for _, m := range cgroups {
		if m%len(r.kinds) != 0 {
			return nil, &wrongUsage{fmt.Sprintf("--cgroups %d cannot be shared out evenly over %d recorded groups: take a multiple, or choose groups with --group", m, len(r.kinds))}
		}
		c, err := r.combination(m)
		if err != nil {
			return nil, err
		}
		for _, b := range bursts {
			c.burst, c.groups = b, slices.Clone(c.groups)
			for i := range c.groups {
				c.groups[i].Burst = b.quotas()
			}
			all = append(all, c)
		}
	}
	return all, nil
}

// combination is the question for m groups, still without a burst.
func (r *replayed) combination(m int) (combination, error) {
	c := combination{name: "trace", cgroups: m}
	quotas, wanted := 0.0, 0.0
	for i, k := range r.kinds {
		quota, err := r.quota(k, m)
		if err != nil {
			return combination{}, err
		}
		if k.mean >= quota {
			return combination{}, k.tooMuch(quota, "raise --limit or --cpus, or take fewer --cgroups")
		}
		process, err := r.process(i, quota)
		if err != nil {
			return combination{}, fmt.Errorf("%s: %w", k.what(), err)
		}
		count := m / len(r.kinds)
		quotas += float64(count) * quota
		wanted += float64(count) * k.mean
		c.groups = append(c.groups, interference.Group{Count: count, Quota: quota, Demand: process})
	}
	c.mean, c.quota, c.capacity = wanted/quotas, quotas/float64(m), quotas
	if r.machine > 0 {
		c.capacity = r.machine.cpus()
	}
	return c, nil
}

// quota of one of m containers, in CPUs.
func (r *replayed) quota(k recorded, m int) (float64, error) {
	switch {
	case r.limit > 0:
		return r.limit.cpus(), nil
	case r.machine > 0:
		return r.machine.cpus() / float64(m), nil
	case k.limit > 0:
		return k.limit, nil
	}
	return 0, fmt.Errorf("%s was recorded without a limit: say what quota a container is to have with --limit CPUS, or with --cpus CPUS what all of them share",
		k.what())
}

// process returns the demand of a kind, in multiples of the quota.
func (r *replayed) process(kind int, quota float64) (demand.Process, error) {
	samples := r.kinds[kind].samples(quota)
	switch r.order.value {
	case orderReplay:
		return demand.NewReplay(samples)
	case orderIndependent:
		return independently(demand.NewEmpirical(samples))
	}
	return demand.NewBlocks(samples, r.blocks[kind].periods)
}
