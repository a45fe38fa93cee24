package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// spread is the median of some rounds, the lowest and the highest.
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

// Rates are in cgroup-periods per second.
func (a answer) wallRate() float64 { return groups * float64(a.Periods) / a.WallSeconds }
func (a answer) cpuRate() float64  { return groups * float64(a.Periods) / a.CPUSeconds }

// table is rows of cells, of which the first is the heading.
type table [][]string

// rates are what everybody does a second, and how many times that the first of each load
// does.
func rates(all []outcome) table {
	t := table{{"u", "by", "cgroup-periods/s", "per CPU second", "one worker to this, by CPU time", "E[WCET]", "P(WCET = 1)", "throttled", "off by"}}
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
		t = append(t, []string{fmt.Sprint(o.load), o.name,
			spreadOf(n, func(r int) float64 { return o.answers[r].wallRate() }).format("%.3g"),
			spreadOf(n, func(r int) float64 { return o.answers[r].cpuRate() }).format("%.3g"), ratio,
			last.ExpectedWCET.String(), last.ProbabilityWCET1.String(), last.ThrottleRatio.String(), off})
	}
	return t
}

// scaling is how much two workers do of what one does.
func scaling(all []outcome) table {
	t := table{{"u", "two workers to one", "if CPUs were free"}}
	for _, o := range all {
		first := firstOf(all, o.load)
		if !o.same || o.name == first.name {
			continue
		}
		n := len(o.answers)
		t = append(t, []string{fmt.Sprint(o.load),
			spreadOf(n, func(r int) float64 { return o.answers[r].wallRate() / first.answers[r].wallRate() }).format("%.2f"),
			spreadOf(n, func(r int) float64 { return 2 * o.answers[r].cpuRate() / first.answers[r].cpuRate() }).format("%.2f")})
	}
	return t
}

func firstOf(all []outcome, load float64) outcome {
	return all[slices.IndexFunc(all, func(o outcome) bool { return o.load == load })]
}

func (e estimate) String() string { return fmt.Sprintf("%.6f +- %.1g", e.Value, e.StandardError) }

func printTables(w io.Writer, output string, cpus int, all []outcome, leftOut []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "m = %d groups, exponential demand, burst %d; %d CPUs; medians (lowest to highest) of %d rounds. E[WCET] to throttled are the last round's; off by: the most, in standard errors.\n",
		groups, burst, cpus, len(all[0].answers))
	for _, t := range []table{rates(all), scaling(all)} {
		b.WriteByte('\n')
		if output == "markdown" {
			t.markdown(&b)
		} else if err := t.text(&b); err != nil {
			return err
		}
	}
	for _, why := range leftOut {
		fmt.Fprintf(&b, "\nleft out: %s\n", why)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t table) text(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, line := range t {
		fmt.Fprintln(tw, strings.Join(line, "\t"))
	}
	return tw.Flush()
}

func (t table) markdown(w io.Writer) {
	for i, line := range t {
		fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
		if i == 0 {
			fmt.Fprintf(w, "|%s\n", strings.Repeat("---|", len(line)))
		}
	}
}

// printBenchstat prints a line for each answer, as Go's benchmarks do.
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
