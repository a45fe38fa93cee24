package model

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"pinfold.dev/pinfold/cmd/frame"
	"pinfold.dev/pinfold/cmd/pinfold/internal/files"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report/recording"
	"pinfold.dev/pinfold/report/simulation"
)

// recordingOptions are the flags that take demand from recordings.
type recordingOptions struct {
	selectionOptions
	flags  *pflag.FlagSet
	period time.Duration
	limit  ledger.MilliCPU // 0: not given
}

func newRecordingOptions(cmd *cobra.Command) *recordingOptions {
	r := &recordingOptions{selectionOptions: selectionOptions{interval: files.IntervalFlag(cmd)}, flags: cmd.Flags()}
	r.flags.StringArrayVar(&r.groups, "group", nil, "take only the recorded group `CGROUP` (its path, or NAMESPACE/POD/CONTAINER)")
	r.flags.DurationVar(&r.period, "period", 0, "the enforcement period is `TIME` (default as recorded, or 100ms)")
	frame.Var(r.flags, &r.limit, "limit", "CPUS", "the quota of each container in CPUs (default as recorded)", frame.ParseAmount)
	return r
}

// take adds the arguments to the recordings.
func (r *recordingOptions) take(cmd *cobra.Command, args []string) error {
	if len(args) == 1 && args[0] != "" && len(cmd.SuggestionsFor(args[0])) > 0 {
		if _, err := os.Stat(args[0]); err != nil {
			return frame.UnknownCommand(cmd, args[0])
		}
	}
	r.files = args
	return nil
}

// checkSource requires that the flags select either recordings or a distribution with a mean. more
// are further flags about recordings.
func (r *recordingOptions) checkSource(d *distributionOptions, more ...string) error {
	aboutTraces := firstChangedOf(r.flags, append([]string{"group", "interval", "period", "limit"}, more...)...)
	switch {
	case len(r.files) > 0 && d.firstChanged() != "":
		return frame.Usagef("%s and --%s both say what the demand is: give one of them", r.files[0], d.firstChanged())
	case len(r.files) > 0:
		return nil
	case aboutTraces != "":
		return frame.Usagef("--%s is about recordings: name one, such as web.parquet", aboutTraces)
	case d.names == "":
		return frame.Usagef("no demand given: name a recording, or use --distribution NAME, which is %s", d.familyText())
	}
	return d.checkMean()
}

// choose returns the selected groups.
func (r *recordingOptions) choose(ctx context.Context, stderr io.Writer) ([]group, error) {
	if r.flags.Changed("period") && (r.period < time.Millisecond || r.period > time.Second) {
		return nil, frame.Usagef("--period %v: enforcement periods are 1ms to 1s", r.period)
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	groups, err := r.survey(ctx, stderr)
	if err != nil {
		return nil, err
	}
	return groups, checkNested(groups)
}

// checkNested rejects a group inside another one, whose demand would count twice.
func checkNested(groups []group) error {
	chosen := map[[2]string]bool{} // by file and path
	for _, g := range groups {
		chosen[[2]string{g.File, g.Path}] = true
	}
	for _, g := range groups {
		for inner, outer := g.Path, path.Dir(g.Path); outer != inner; inner, outer = outer, path.Dir(outer) {
			if chosen[[2]string{g.File, outer}] {
				return fmt.Errorf("%s: %s is part of %s, and would count twice: choose groups with --group", g.File, g.Path, outer)
			}
		}
	}
	return nil
}

// demands reads the demand of groups.
func (r *recordingOptions) demands(ctx context.Context, groups []group) ([]simulation.Recorded, error) {
	period, err := r.commonPeriod(groups)
	if err != nil {
		return nil, err
	}
	var out []simulation.Recorded
	err = r.eachSeries(ctx, groups, maxSamplesAtOnce, func(g group, interval time.Duration, s *trace.Series) error {
		demand, waited, err := s.Wanted(interval, period)
		switch {
		case errors.Is(err, trace.ErrTooCoarse):
			return fmt.Errorf("%s: %s: %w%s", g.File, g.Path, err, counted(s, interval))
		case err != nil:
			return fmt.Errorf("%s: %s: %w", g.File, g.Path, err)
		}
		limit, _ := g.limits.CPUs()
		out = append(out, simulation.Recorded{Group: g.Group, Limit: limit, LimitChanges: g.limitChanges, Mean: demand.Mean(), Unknown: g.unknown, Demand: demand, Waited: waited})
		return nil
	})
	return out, err
}

// counted says what is known of a recording without the demand of single periods.
func counted(s *trace.Series, interval time.Duration) string {
	text := ""
	if interval <= bandwidth.MaxPeriod {
		text = fmt.Sprintf("; or compute with --period %v", interval)
	}
	sum := trace.Summarise(s, interval)
	text += fmt.Sprintf("\nknown is: average use %s", quantity.CPUs(sum.CPUs()))
	if limit, limited := sum.Limits.CPUs(); limited {
		text += fmt.Sprintf(", %s of the limit", quantity.Share(sum.CPUs()/limit))
	}
	if sum.Periods > 0 {
		text += "; throttled " + recording.Throttled(&sum)
	}
	return text
}

// commonPeriod returns --period, or the period of all groups with a limit.
func (r *recordingOptions) commonPeriod(groups []group) (time.Duration, error) {
	if r.period > 0 {
		return r.period, nil
	}
	common, from := time.Duration(0), group{}
	for _, g := range groups {
		if _, limited := g.limits.CPUs(); !limited {
			continue
		}
		if common > 0 && g.limits.Period != common {
			return 0, fmt.Errorf("%s has a period of %v, %s one of %v: say with --period which one is meant",
				from.Path, common, g.Path, g.limits.Period)
		}
		common, from = g.limits.Period, g
	}
	if common == 0 {
		common = trace.DefaultPeriod
	}
	return common, nil
}

// tooMuch returns an error for a quota, in CPUs, that is not above the mean demand.
func tooMuch(r *simulation.Recorded, quota float64, advice string) error {
	return fmt.Errorf("%s wants %s CPUs on average, %s of a quota of %s CPUs: %s", r.Group, quantity.CPUs(r.Mean).Fixed(), quantity.Share(r.Mean/quota), quantity.CPUs(quota).Fixed(),
		unstable(r.Mean/quota, advice))
}
