package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"pinfold.dev/pinfold/bench/internal/command"
	"pinfold.dev/pinfold/core/interference"
)

// spread is the minimum, median and maximum over rounds.
type spread struct{ low, median, high float64 }

func spreadOf(n int, value func(round int) float64) spread {
	values := make([]float64, n)
	for i := range values {
		values[i] = value(i)
	}
	slices.Sort(values)
	return spread{values[0], (values[(n-1)/2] + values[n/2]) / 2, values[n-1]}
}

func (s spread) format(verb string) string {
	return fmt.Sprintf(verb+" ("+verb+" to "+verb+")", s.median, s.low, s.high)
}

// The rates are in cgroup-periods per second.
func (a answer) wallRate() float64 { return groups * float64(a.Periods) / a.WallSeconds }
func (a answer) cpuRate() float64  { return groups * float64(a.Periods) / a.CPUSeconds }

// rates returns the rate of each contender, and the ratio of the first contender to it.
func rates(all []outcome) [][]string {
	rows := [][]string{{"u", "by", "cgroup-periods/s", "per CPU second", "one worker to this, by CPU time", "E[WCET]", "P(WCET = 1)", "throttled", "off by"}}
	for i, o := range all {
		if o.same && i > 0 && all[i-1].load == o.load {
			continue // see scaling
		}
		first, n, last := firstOf(all, o.load), len(o.answers), o.answers[len(o.answers)-1]
		ratio, off := "1", "-"
		if !o.same {
			ratio = spreadOf(n, func(r int) float64 { return first.answers[r].cpuRate() / o.answers[r].cpuRate() }).format("%.2f")
			off = fmt.Sprintf("%.1f", o.off)
		}
		rows = append(rows, []string{fmt.Sprint(o.load), o.name,
			spreadOf(n, func(r int) float64 { return o.answers[r].wallRate() }).format("%.3g"),
			spreadOf(n, func(r int) float64 { return o.answers[r].cpuRate() }).format("%.3g"), ratio,
			withError(last.ExpectedWCET), withError(last.ProbabilityWCET1), withError(last.ThrottleRatio), off})
	}
	return rows
}

// scaling returns the rate of two workers relative to one.
func scaling(all []outcome) [][]string {
	rows := [][]string{{"u", "two workers to one", "if CPUs were free"}}
	for _, o := range all {
		first := firstOf(all, o.load)
		if !o.same || o.name == first.name {
			continue
		}
		n := len(o.answers)
		rows = append(rows, []string{fmt.Sprint(o.load),
			spreadOf(n, func(r int) float64 { return o.answers[r].wallRate() / first.answers[r].wallRate() }).format("%.2f"),
			spreadOf(n, func(r int) float64 { return 2 * o.answers[r].cpuRate() / first.answers[r].cpuRate() }).format("%.2f")})
	}
	return rows
}

func firstOf(all []outcome, load float64) outcome {
	return all[slices.IndexFunc(all, func(o outcome) bool { return o.load == load })]
}

func withError(e interference.Estimate) string {
	return fmt.Sprintf("%.6f +- %.1g", e.Value, e.StandardError)
}

func printTables(w io.Writer, output string, cpus int, all []outcome, leftOut []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "m = %d groups, exponential demand, burst %d; %d CPUs; medians (lowest to highest) of %d rounds. E[WCET] to throttled are the last round's; off by: the most, in standard errors.\n",
		groups, burst, cpus, len(all[0].answers))
	print := command.Text
	if output == "markdown" {
		print = command.Markdown
	}
	for _, rows := range [][][]string{rates(all), scaling(all)} {
		b.WriteByte('\n')
		print(&b, command.Table{Left: len(rows[0]), Rows: rows})
	}
	for _, why := range leftOut {
		fmt.Fprintf(&b, "\nleft out: %s\n", why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// printBenchstat prints a line per answer in the format of Go benchmarks.
func printBenchstat(w io.Writer, all []outcome) error {
	var b strings.Builder
	fmt.Fprintf(&b, "goos: %s\ngoarch: %s\npkg: pinfold.dev/pinfold/bench/montecarlo\n", runtime.GOOS, runtime.GOARCH)
	b.WriteString("Unit cgroup-periods/s better=higher\nUnit cgroup-periods/cpu-s better=higher\n")
	for round := range all[0].answers {
		for _, o := range all {
			a := o.answers[round]
			fmt.Fprintf(&b, "BenchmarkSimulate/u=%v/by=%s\t%d\t%.4g cgroup-periods/s\t%.4g cgroup-periods/cpu-s\n",
				o.load, strings.NewReplacer(", ", "-", " ", "-").Replace(o.name), a.Periods, a.wallRate(), a.cpuRate())
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
