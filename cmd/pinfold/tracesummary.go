package main

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/report"
)

// marks are the timescales of a short summary.
func marks() []time.Duration { return []time.Duration{trace.DefaultPeriod, time.Second, time.Minute} }

// printSummary prints what was recorded of each group, and what it needs at three
// timescales.
func printSummary(w io.Writer, rec *trace.Recording) error {
	b := bufio.NewWriter(w)
	for i := range rec.Series {
		if i > 0 {
			fmt.Fprintln(b)
		}
		sum := printSeries(b, &rec.Series[i], rec.Interval)
		for _, w := range marks() {
			printMark(b, &rec.Series[i], rec.Interval, w, sum.Limits)
		}
		printDoubt(b, &sum)
	}
	if err := b.Flush(); err != nil {
		return fmt.Errorf("print the summary: %w", err)
	}
	return nil
}

func printLine(w io.Writer, name, format string, args ...any) {
	fmt.Fprintf(w, "%-10s %s\n", name, fmt.Sprintf(format, args...))
}

// printSeries prints the summary of a group, without timescales.
func printSeries(w io.Writer, s *trace.Series, interval time.Duration) trace.Summary {
	sum := trace.Summarise(s, interval)
	title := s.Group
	if s.Name != "" {
		title += " (" + s.Name + ")"
	}
	printLine(w, "group", "%s", report.Printable(title))
	printLine(w, "samples", "%d of %v in %v; %d late, %d gaps", sum.Samples, interval, short(sum.Time), sum.Late, sum.Gaps)
	period := sum.Limits.Period
	if period <= 0 {
		period = trace.DefaultPeriod
	}
	p := sum.PerPeriod
	printLine(w, "usage", "mean %s CPUs; in %d periods of %v: sd %s, p95 %s, p99 %s, max %s",
		cpus(p.Mean), p.Bins, period, cpus(p.SD), cpus(p.P95), cpus(p.P99), cpus(p.Max))
	limit, limited := sum.Limits.CPUs()
	changed := ""
	if sum.LimitChanges > 0 {
		changed = fmt.Sprintf("; changed %d times, this is the last", sum.LimitChanges)
	}
	if limited {
		printLine(w, "limit", "%s CPUs: %v in each %v, burst %v%s", cpus(limit), sum.Limits.Quota, sum.Limits.Period, sum.Limits.Burst, changed)
	} else {
		printLine(w, "limit", "none%s", changed)
	}
	if limited || sum.Periods > 0 {
		printLine(w, "throttled", "%s", throttledText(sum.Throttled, sum.Periods, sum.WallPeriods, sum.ThrottledTime))
		printLine(w, "bursts", "%d periods, %v beyond the quota", sum.Bursts, short(sum.BurstTime))
	}
	return sum
}

// printMark prints the demand at one timescale, against the limit.
func printMark(w io.Writer, s *trace.Series, interval, window time.Duration, limits bandwidth.Limits) {
	scales := trace.TimescalesAt(s, interval, []time.Duration{window})
	name := "in " + windowName(window)
	switch {
	case len(scales) > 0:
		sc := scales[0]
		printLine(w, name, "at most %s CPUs%s, p99 %s%s", cpus(sc.Max), ofLimit(sc.Max, limits), cpus(sc.P99), ofLimit(sc.P99, limits))
	case window < interval:
		printLine(w, name, "not known: samples are longer")
	default:
		printLine(w, name, "not known: nothing of that length was recorded without a gap")
	}
}

// ofLimit is the share of the limit in brackets, "" without one.
func ofLimit(used float64, l bandwidth.Limits) string {
	limit, ok := l.CPUs()
	if !ok {
		return ""
	}
	return fmt.Sprintf(" (%.0f%% of the limit)", 100*used/limit)
}

func windowName(d time.Duration) string {
	if d == time.Minute {
		return "1m"
	}
	return d.String()
}

// printDoubt warns of usage that may be less than demand.
func printDoubt(w io.Writer, sum *trace.Summary) {
	if sum.ThrottledShare > 0 {
		printLine(w, "note", "throttled in samples that are %.0f%% of the time: they show usage, demand was higher", 100*sum.ThrottledShare)
	}
}

// cpus prints a number of CPUs.
func cpus(n float64) string { return fmt.Sprintf("%.2f", n) }
