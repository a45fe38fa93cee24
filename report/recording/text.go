// Package recording formats recordings of CPU usage: a short summary per group ([PrintSummary]),
// one with all timescales ([PrintInfo]), and JSON ([NewInfo]). It also formats what the kernel
// counts for a limit ([Limit], [Throttled]).
package recording

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
)

// PrintSummary prints for each group what was recorded and its usage at three timescales.
func PrintSummary(w io.Writer, rec *trace.Recording) error {
	b := bufio.NewWriter(w)
	for i := range rec.Series {
		if i > 0 {
			fmt.Fprintln(b)
		}
		sum := printSeries(b, &rec.Series[i], rec.Interval)
		for _, window := range []time.Duration{trace.DefaultPeriod, time.Second, time.Minute} {
			printWindow(b, &rec.Series[i], rec.Interval, window, sum.Limits)
		}
		for _, note := range notes(&rec.Series[i], &sum, 0) {
			report.Line(b, "note", "%s", note)
		}
	}
	return report.Flush(b, "print the summary")
}

// PrintInfo prints for each group what was recorded and a table of timescales.
func PrintInfo(w io.Writer, rec *trace.Recording) error {
	b := bufio.NewWriter(w)
	report.Line(b, "begin", "%s", rec.Start.UTC().Format(time.RFC3339))
	for i := range rec.Series {
		s := &rec.Series[i]
		fmt.Fprintln(b)
		sum := printSeries(b, s, rec.Interval)
		for _, note := range notes(s, &sum, rec.Interval) {
			report.Line(b, "note", "%s", note)
		}
		fmt.Fprintf(b, "\n%10s %8s %8s %8s %10s\n", "window", "windows", "max", "p99", "throttled")
		for _, sc := range thinned(trace.Timescales(s, rec.Interval)) {
			throttled := unknown
			if sc.Throttled != nil {
				throttled = fmt.Sprintf("%.0f%%", 100**sc.Throttled)
			}
			fmt.Fprintf(b, "%10v %8d %8s %8s %10s\n", windowName(sc.Window.Duration), sc.Windows, quantity.CPUs(sc.Max).Fixed(), quantity.CPUs(sc.P99).Fixed(), throttled)
		}
	}
	return report.Flush(b, "print the summary")
}

// thinned returns the timescales that are at least 1.5 times as long as the one before, the usual
// ones, and the last.
func thinned(scales []trace.Scale) []trace.Scale {
	var out []trace.Scale
	for i, sc := range scales {
		w := sc.Window.Duration
		usual := w == trace.DefaultPeriod || w == time.Second || w == 10*time.Second
		if i == 0 || usual || i == len(scales)-1 || 2*w >= 3*out[len(out)-1].Window.Duration {
			out = append(out, sc)
		}
	}
	return out
}

func printSeries(w io.Writer, s *trace.Series, interval time.Duration) trace.Summary {
	sum := trace.Summarise(s, interval)
	title := s.Group
	if s.Name != "" {
		title += " (" + s.Name + ")"
	}
	report.Line(w, "group", "%s", report.Printable(title))
	report.Line(w, "samples", "%d of %v in %v; %d late, %d gaps", sum.Samples, interval, Rounded(sum.Time), sum.Late, sum.Gaps)
	period := trace.PeriodOf(sum.Limits)
	p, bins := sum.PerPeriod, fmt.Sprintf("%s of %v", quantity.Count(sum.PerPeriod.Bins, "period"), period)
	if interval > period {
		bins = fmt.Sprintf("%s of %v", quantity.Count(p.Bins, "sample"), interval)
	}
	usage := fmt.Sprintf("in %s: sd %s, p95 %s, p99 %s, max %s",
		bins, quantity.CPUs(p.SD).Fixed(), quantity.CPUs(p.P95).Fixed(), quantity.CPUs(p.P99).Fixed(), quantity.CPUs(p.Max).Fixed())
	if p.Bins == 0 {
		usage = fmt.Sprintf("nothing as long as a period of %v was recorded without a gap", period)
	}
	report.Line(w, "usage", "mean %s CPUs; %s", quantity.CPUs(p.Mean).Fixed(), usage)
	changed := ""
	if sum.LimitChanges > 0 {
		changed = fmt.Sprintf("; changed %d times, this is the last", sum.LimitChanges)
	}
	limit, limited := sum.Limits.CPUs()
	switch {
	case limited:
		burst := unlessUnknown(sum.Unknown.Has(trace.Burst), "%v", sum.Limits.Burst)
		report.Line(w, "limit", "%s CPUs: %v in each %v, burst %s%s", quantity.CPUs(limit).Fixed(), sum.Limits.Quota, sum.Limits.Period, burst, changed)
	case sum.Unknown.Has(trace.Limits):
		report.Line(w, "limit", "unknown: record with pinfold sample, or ask Prometheus for kube_pod_container_resource_limits, too")
	default:
		report.Line(w, "limit", "none%s", changed)
	}
	if limited || sum.Unknown.Has(trace.Limits) || sum.Periods > 0 {
		report.Line(w, "throttled", "%s", Throttled(&sum))
		report.Line(w, "bursts", "%s", BurstsOf(&sum))
	}
	if s.Exact != nil {
		report.Line(w, "traced", "%s", traced(s.Exact, &sum))
	}
	return sum
}

// printWindow prints the usage in windows of one length, compared with the limit.
func printWindow(w io.Writer, s *trace.Series, interval, window time.Duration, limits bandwidth.Limits) {
	name := "in " + windowName(window)
	limit, limited := limits.CPUs()
	ofLimit := func(used float64) string {
		if !limited {
			return ""
		}
		return fmt.Sprintf(" (%.0f%% of the limit)", 100*used/limit)
	}
	scales := trace.TimescalesAt(s, interval, []time.Duration{window})
	switch {
	case window < interval:
		report.Line(w, name, "unknown: samples are longer")
	case len(scales) > 0:
		sc := scales[0]
		report.Line(w, name, "at most %s CPUs%s, p99 %s%s", quantity.CPUs(sc.Max).Fixed(), ofLimit(sc.Max), quantity.CPUs(sc.P99).Fixed(), ofLimit(sc.P99))
	default:
		report.Line(w, name, "unknown: nothing of that length was recorded without a gap")
	}
}

func windowName(d time.Duration) string {
	if d == time.Minute {
		return "1m"
	}
	return d.String()
}

// notes warns of usage that may be less than demand, and of samples that are too long.
func notes(s *trace.Series, sum *trace.Summary, interval time.Duration) (all []string) {
	if sum.ThrottledShare > 0 {
		all = append(all, fmt.Sprintf("throttled in samples that are %.0f%% of the time: they show usage, demand was higher", 100*sum.ThrottledShare))
	}
	if period := trace.PeriodOf(sum.Limits); interval > period {
		all = append(all, fmt.Sprintf("samples of %v do not show single periods of %v: record with: %s", interval, period, s.RecordCommand()))
	}
	if sum.Raised > 0 {
		all = append(all, fmt.Sprintf("it got CPUs before its neighbours (--weight) in %s of the samples", quantity.Share(float64(sum.Raised)/float64(sum.Samples)).Whole()))
	}
	if sum.TraceEnded > 0 {
		all = append(all, fmt.Sprintf("what threads did is missing in %s of the samples: tracing (--exact) had cost too much",
			quantity.Share(float64(sum.TraceEnded)/float64(sum.Samples)).Whole()))
	}
	return all
}

// traced formats what threads did, compared with the counters.
func traced(x *trace.Exact, sum *trace.Summary) string {
	counted := Rounded(sum.Usage).String()
	if sum.TraceEnded > 0 {
		counted += ", also after tracing had ended"
	}
	text := fmt.Sprintf("threads ran for %v (counted: %v), were throttled for %v and waited %v for a CPU", Rounded(x.Running), counted,
		Rounded(x.Throttled), Rounded(x.Waiting))
	if x.Periods() > 0 {
		text += fmt.Sprintf("; %d timer periods (counted: %d)", x.Periods(), sum.Periods)
	}
	if x.Unknown > 0 {
		text += fmt.Sprintf("; %v are unknown", Rounded(x.Unknown))
	}
	return text
}

// Throttled formats the throttled shares of the timer's periods and of all wall-clock periods, and
// the time for which CPUs were throttled.
func Throttled(sum *trace.Summary) string {
	if sum.Unknown.Has(trace.Periods) {
		return unknown
	}
	assumed, time := "", fmt.Sprintf("%v, all CPUs together", Rounded(sum.ThrottledTime))
	if sum.Unknown.Has(trace.Limits) {
		assumed = fmt.Sprintf(" if they are %v", trace.PeriodOf(sum.Limits))
	}
	if sum.Unknown.Has(trace.ThrottledTime) {
		time = "unknown for how long"
	}
	wall := ""
	if sum.WallPeriods > 0 { // else there was no limit
		wall = fmt.Sprintf(", %s of the %.1f wall periods%s", quantity.Share(sum.ThrottledOfWall()).Whole(), sum.WallPeriods, assumed)
	}
	return fmt.Sprintf("%d of %d timer periods (%s)%s; %s", sum.Throttled, sum.Periods, quantity.Share(sum.ThrottledOfTimer()).Whole(), wall, time)
}

// BurstsOf formats how often and how far the group went beyond its quota.
func BurstsOf(sum *trace.Summary) string {
	return unlessUnknown(sum.Unknown.Has(trace.Bursts), "%d periods, %v beyond the quota", sum.Bursts, Rounded(sum.BurstTime))
}

const unknown = "unknown"

func unlessUnknown(isUnknown bool, format string, args ...any) string {
	if isUnknown {
		return unknown
	}
	return fmt.Sprintf(format, args...)
}

// Rounded rounds a time for display.
func Rounded(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Round(time.Millisecond)
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
