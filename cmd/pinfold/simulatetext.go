package main

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"pinfold.dev/pinfold/core/interference"
	"pinfold.dev/pinfold/core/quantity"
)

// printText prints a row for each combination, and what they mean.
func (s *scenario) printText(w io.Writer, done []simulated) error {
	b := bufio.NewWriter(w)
	s.replay.printKinds(b)
	printRows(b, s.rows(done))
	if len(s.replay.kinds) > 1 {
		fmt.Fprintln(b)
		printRows(b, s.replay.kindRows(done))
	}
	fmt.Fprintln(b)
	fmt.Fprintln(b, conclude(done))
	if err := b.Flush(); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	return nil
}

// printKinds prints what was recorded and how it is drawn from.
func (r *replayed) printKinds(w io.Writer) {
	for i, k := range r.kinds {
		printLine(w, "recorded", "%s: %d periods of %v, mean %s CPUs, sd %s, max %s", k.what(), len(k.CPUs), k.Period, cpus(k.mean), cpus(k.deviation()), cpus(k.most()))
		if r.order.value == orderBlocks {
			printLine(w, "pieces", "of %.3g × %v on average, from random places", r.blocks[i].periods, k.Period)
		}
	}
	switch {
	case len(r.kinds) == 0:
		return
	case r.order.value == orderReplay:
		printLine(w, "order", "as recorded, each container from a place of its own")
	case r.order.value == orderIndependent:
		printLine(w, "order", "none: each period is drawn by itself")
	}
	if r.machine > 0 {
		printLine(w, "machine", "%s CPUs", cpus(r.machine.cpus()))
	} else {
		printLine(w, "machine", "as many CPUs as all quotas together")
	}
	fmt.Fprintln(w)
}

func (s *scenario) rows(done []simulated) [][]string {
	rows := [][]string{{"quota", "mean", "cgroups", "burst", "E[WCET]", "P(WCET = 1)", "throttled", "backlog"}}
	for _, d := range done {
		g := d.average()
		rows = append(rows, []string{cpus(d.quota), quantity.Share(d.mean).String(), fmt.Sprint(d.cgroups), d.burst.String(),
			withError(d.ExpectedWCET, 1, ""), withError(d.ProbabilityWCET1, 100, "%"),
			withError(g.ThrottleRatio, 100, "%"), withError(g.Backlog, 100, "%")})
	}
	if len(s.replay.kinds) == 0 { // quotas are parts of the machine
		for i := range rows {
			rows[i] = rows[i][1:]
		}
	}
	return rows
}

// kindRows are what becomes of each recorded group.
func (r *replayed) kindRows(done []simulated) [][]string {
	rows := [][]string{{"quota", "mean", "cgroups", "burst", "throttled", "backlog", "of"}}
	for _, d := range done {
		for i, k := range r.kinds {
			g := d.groups[i]
			rows = append(rows, []string{cpus(g.Quota), quantity.Share(g.Demand.Mean()).String(), fmt.Sprint(g.Count), d.burst.String(),
				withError(d.Groups[i].ThrottleRatio, 100, "%"), withError(d.Groups[i].Backlog, 100, "%"), k.what()})
		}
	}
	return rows
}

// printRows prints columns, flush right, as wide as they need to be.
func printRows(w io.Writer, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			fmt.Fprintf(&line, "%*s  ", widths[i], cell)
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// withError prints a figure to the second digit of its standard error. Where nothing was
// ever different there is none.
func withError(e interference.Estimate, unit float64, suffix string) string {
	if e.StandardError == 0 {
		return fmt.Sprintf("%.4g%s", unit*e.Value, suffix)
	}
	places := min(max(1-int(math.Floor(math.Log10(unit*e.StandardError))), 0), 9)
	return fmt.Sprintf("%.*f%s ±%.*f", places, unit*e.Value, suffix, places, unit*e.StandardError)
}

// warnSimulated says what cannot be concluded from which combination.
func warnSimulated(w io.Writer, done []simulated) {
	for _, s := range done {
		for _, warning := range s.Warnings {
			fmt.Fprintf(w, "pinfold: %s: %s\n", s.what(), warning)
		}
	}
}

// what names a combination in a sentence.
func (c *combination) what() string {
	return fmt.Sprintf("mean %s, %d cgroups, burst %v", quantity.Share(c.mean), c.cgroups, c.burst)
}
