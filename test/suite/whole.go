package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// whole runs every unit, and records the run if it was complete.
func (s *suite) whole(ctx context.Context) error {
	units, err := everything(ctx)
	if err != nil {
		return err
	}
	units = s.order(s.chosen(units))
	begun := time.Now()
	var results []result
	for n, u := range units {
		fmt.Fprintf(s.out, "== %d of %d units, %v\n", n, len(units), time.Since(begun).Round(time.Second))
		r, err := s.runner.judge(ctx, u)
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	if s.only.String() == "" {
		if err := record("test/record.md", results, time.Since(begun)); err != nil {
			return err
		}
	}
	return s.close(results)
}

// order sorts units by what is learned first: those that failed the last time, those that never ran,
// and the others by their duration, shortest first.
func (s *suite) order(units []unit) []unit {
	rank := map[string]float64{}
	for _, u := range units {
		switch r, ok := s.runner.kept(u); {
		case ok && r.Verdict != passed:
			rank[u.name] = -1
		case ok:
			rank[u.name] = r.Seconds
		}
	}
	slices.SortStableFunc(units, func(a, b unit) int { return cmp.Compare(rank[a.name], rank[b.name]) })
	return units
}

// record writes what a run of the whole suite showed.
func record(file string, results []result, took time.Duration) error {
	var b strings.Builder
	var all counts
	cached, bad := 0, []result{}
	for _, r := range results {
		all.add(r.counts)
		if r.Cached && r.Verdict == passed {
			cached++
		}
		if r.Verdict != passed {
			bad = append(bad, r)
		}
	}
	first := results[0]
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return err
	}
	fmt.Fprintf(&b, `# The last run of the whole suite

Written by `+"`make test-all`"+`. A commit with "+" had changes that were not committed.

| | |
|---|---|
| commit | %s |
| date | %s |
| machine | %d CPUs, Linux %s |
| time | %v |
| units | %d, of which %d had passed before, and nothing that they depend on has changed |
| tests | %v |

## Units that did not pass at once

`, first.Commit, time.Now().UTC().Format("2006-01-02 15:04 UTC"), runtime.NumCPU(), strings.TrimSpace(string(kernel)), took.Round(time.Second), len(results), cached, all)
	writeRows(&b, bad, func(r result) string {
		return fmt.Sprintf("- **%s**: %s: %s (%s)\n", r.Verdict, r.Unit, plain(r.First), r.Disturbance)
	})
	b.WriteString("\n## Tests that ran nowhere\n\n")
	writeRows(&b, nowhere(results), func(name string) string { return "- " + plain(name) + "\n" })
	b.WriteString("\n## Units by time\n\n| unit | seconds | passed | skipped |\n|---|--:|--:|--:|\n")
	slices.SortStableFunc(results, func(a, b result) int { return cmp.Compare(b.Seconds, a.Seconds) })
	var short result // all that took less than a minute
	shorter := 0
	for _, r := range results {
		switch {
		case r.Cached:
		case r.Seconds >= 60:
			fmt.Fprintf(&b, "| %s | %.0f | %d | %d |\n", r.Unit, r.Seconds, r.Passed, r.Skipped)
		default:
			shorter++
			short.Seconds += r.Seconds
			short.add(r.counts)
		}
	}
	if shorter > 0 {
		fmt.Fprintf(&b, "| %d of less than a minute | %.0f | %d | %d |\n", shorter, short.Seconds, short.Passed, short.Skipped)
	}
	return os.WriteFile(file, []byte(b.String()), 0o666)
}

func writeRows[T any](b *strings.Builder, rows []T, row func(T) string) {
	for _, r := range rows {
		b.WriteString(row(r))
	}
	if len(rows) == 0 {
		b.WriteString("None.\n")
	}
}

// plain keeps text of tests from being taken for Markdown.
func plain(text string) string {
	return strings.NewReplacer("<", "&lt;", "|", "\\|", "*", "\\*").Replace(text)
}
