package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/tracefile"
)

// recordings are the flags that take demand from recordings.
type recordings struct {
	flags    *pflag.FlagSet
	files    []string
	groups   []string // paths or names; none for all
	interval *time.Duration
	period   time.Duration
	limit    cpuAmount
}

func recordingFlags(cmd *cobra.Command) *recordings {
	r := &recordings{flags: cmd.Flags(), interval: npyInterval(cmd)}
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
	return checkGroups(r.groups)
}

// recordedSeries is a series with what belongs to it.
type recordedSeries struct {
	groupID
	interval time.Duration
	*trace.Series
}

// read returns the demand of each chosen group of all files.
func (r *recordings) read(stderr io.Writer) ([]recorded, error) {
	var all []recordedSeries
	for _, file := range r.files {
		rec, lost, err := tracefile.Read(file, *r.interval)
		if err != nil {
			return nil, adviseTrace(err)
		}
		warnLost(stderr, file, lost)
		for i := range rec.Series {
			s := &rec.Series[i]
			if id := (groupID{file, s.Group, s.Name}); r.wants(id) {
				all = append(all, recordedSeries{id, rec.Interval, s})
			}
		}
	}
	if err := r.allFound(all); err != nil {
		return nil, err
	}
	if err := checkNested(all); err != nil {
		return nil, err
	}
	all, err := r.withoutIdle(stderr, all)
	if err != nil {
		return nil, err
	}
	return r.demands(all)
}

func (r *recordings) wants(id groupID) bool {
	return len(r.groups) == 0 || slices.ContainsFunc(r.groups, id.isCalled)
}

// allFound refuses groups that are in no file.
func (r *recordings) allFound(all []recordedSeries) error {
	for _, group := range r.groups {
		if !slices.ContainsFunc(all, func(rec recordedSeries) bool { return rec.isCalled(group) }) {
			return fmt.Errorf("%s has no samples of group %s: 'pinfold trace info' says which groups it has", strings.Join(r.files, ", "), group)
		}
	}
	return nil
}

// checkNested refuses a group beside one that it is in: its demand would count twice.
func checkNested(all []recordedSeries) error {
	for _, outer := range all {
		for _, inner := range all {
			below := strings.TrimSuffix(outer.Group, "/") + "/"
			if outer.file == inner.file && outer.Group != inner.Group && strings.HasPrefix(inner.Group, below) {
				return fmt.Errorf("%s: %s is part of %s, and would count twice: choose groups with --group", outer.file, inner.Group, outer.Group)
			}
		}
	}
	return nil
}

// withoutIdle leaves out groups that wanted nothing, as the sandboxes of pods. One that
// was asked for by name is refused.
func (r *recordings) withoutIdle(stderr io.Writer, all []recordedSeries) ([]recordedSeries, error) {
	var busy []recordedSeries
	for _, rec := range all {
		used := slices.ContainsFunc(rec.Samples, func(s trace.Sample) bool { return s.Usage > 0 })
		switch {
		case used:
			busy = append(busy, rec)
		case len(r.groups) > 0 || len(all) == 1:
			return nil, rec.idle()
		default:
			rec.leaveOut(stderr)
		}
	}
	if len(busy) == 0 {
		return nil, fmt.Errorf("%s: no group used any CPU time: record while they work", strings.Join(r.files, ", "))
	}
	return busy, nil
}

func (r *recordings) demands(all []recordedSeries) ([]recorded, error) {
	period, err := r.commonPeriod(all)
	if err != nil {
		return nil, err
	}
	var out []recorded
	for _, rec := range all {
		demand, err := rec.Demand(rec.interval, period)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", rec.file, rec.Group, err)
		}
		sum := trace.Summarise(rec.Series, rec.interval)
		limit, _ := sum.Limits.CPUs()
		mean := 0.0
		for _, x := range demand.CPUs {
			mean += x / float64(len(demand.CPUs))
		}
		out = append(out, recorded{rec.groupID, limit, sum.LimitChanges, mean, demand})
	}
	return out, nil
}

// commonPeriod is the one that is asked for, or that of the groups with a limit.
func (r *recordings) commonPeriod(all []recordedSeries) (time.Duration, error) {
	if r.period > 0 {
		return r.period, nil
	}
	common, from := time.Duration(0), recordedSeries{}
	for _, rec := range all {
		limits := rec.Samples[len(rec.Samples)-1].Limits
		if _, limited := limits.CPUs(); !limited {
			continue
		}
		if common > 0 && limits.Period != common {
			return 0, fmt.Errorf("%s has a period of %v, %s one of %v: say with --period which one is meant",
				from.Group, common, rec.Group, limits.Period)
		}
		common, from = limits.Period, rec
	}
	if common == 0 {
		common = trace.DefaultPeriod
	}
	return common, nil
}
