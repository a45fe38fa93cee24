package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/core/trace"
)

// recordings are the flags that take demand from recordings.
type recordings struct {
	selection
	flags  *pflag.FlagSet
	period time.Duration
	limit  cpuAmount
}

func recordingFlags(cmd *cobra.Command) *recordings {
	r := &recordings{selection: selection{interval: npyInterval(cmd)}, flags: cmd.Flags()}
	r.flags.StringArrayVar(&r.files, "trace", nil, "take the demand from the recording `FILE`; further files may follow")
	r.flags.StringArrayVar(&r.groups, "group", nil, "take only the recorded group `CGROUP` (its path, or NAMESPACE/POD/CONTAINER)")
	r.flags.DurationVar(&r.period, "period", 0, "the enforcement period is `TIME` (default as recorded, or 100ms)")
	r.flags.Var(&r.limit, "limit", "the quota of each container in CPUs (default as recorded)")
	return r
}

// given returns the first flag about recordings that was given, "" for none.
func (r *recordings) given(more ...string) string {
	for _, name := range append([]string{"trace", "group", "interval", "period", "limit"}, more...) {
		if r.flags.Changed(name) {
			return name
		}
	}
	return ""
}

// check refuses what no recording can answer.
func (r *recordings) check() error {
	if r.flags.Changed("period") && (r.period < time.Millisecond || r.period > time.Second) {
		return &wrongUsage{fmt.Sprintf("--period %v: enforcement periods are 1ms to 1s", r.period)}
	}
	if slices.Contains(r.files, "") {
		return &wrongUsage{"--trace is empty: name a recording"}
	}
	return r.selection.check()
}

// choose returns the groups that are asked about.
func (r *recordings) choose(ctx context.Context, stderr io.Writer) ([]surveyed, error) {
	groups, err := r.survey(ctx, stderr)
	if err != nil {
		return nil, err
	}
	return groups, checkNested(groups)
}

// checkNested refuses a group beside one that it is in: its demand would count twice.
func checkNested(groups []surveyed) error {
	type path struct{ file, group string }
	chosen := map[path]bool{}
	for _, g := range groups {
		chosen[path{g.file, g.group}] = true
	}
	for _, inner := range groups {
		for i := range len(inner.group) - 1 {
			if inner.group[i] != '/' {
				continue
			}
			for _, outer := range []string{inner.group[:i], inner.group[:i+1]} {
				if chosen[path{inner.file, outer}] {
					return fmt.Errorf("%s: %s is part of %s, and would count twice: choose groups with --group", inner.file, inner.group, outer)
				}
			}
		}
	}
	return nil
}

// demands returns the demand of groups.
func (r *recordings) demands(ctx context.Context, groups []surveyed) ([]recorded, error) {
	period, err := r.commonPeriod(groups)
	if err != nil {
		return nil, err
	}
	var out []recorded
	err = eachSeries(ctx, groups, *r.interval, samplesAtOnce, func(file string, interval time.Duration, s *trace.Series) error {
		demand, err := s.Demand(interval, period)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", file, s.Group, err)
		}
		sum := trace.Summarise(s, interval)
		limit, _ := sum.Limits.CPUs()
		mean := 0.0
		for _, x := range demand.CPUs {
			mean += x / float64(len(demand.CPUs))
		}
		out = append(out, recorded{groupID{file, s.Group, s.Name}, limit, sum.LimitChanges, mean, demand})
		return nil
	})
	return out, err
}

// commonPeriod is the one that is asked for, or that of the groups with a limit.
func (r *recordings) commonPeriod(groups []surveyed) (time.Duration, error) {
	if r.period > 0 {
		return r.period, nil
	}
	common, from := time.Duration(0), surveyed{}
	for _, g := range groups {
		if _, limited := g.limits.CPUs(); !limited {
			continue
		}
		if common > 0 && g.limits.Period != common {
			return 0, fmt.Errorf("%s has a period of %v, %s one of %v: say with --period which one is meant",
				from.group, common, g.group, g.limits.Period)
		}
		common, from = g.limits.Period, g
	}
	if common == 0 {
		common = trace.DefaultPeriod
	}
	return common, nil
}
