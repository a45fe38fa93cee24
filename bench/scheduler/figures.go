package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
)

// figures are the outcome of one measurement.
type figures struct {
	pods      int
	perSecond float64       // pods, from the first binding to the last
	midSecond float64       // the same over the middle 80% of the bindings
	cpuPerPod time.Duration // of the scheduler, from the first binding on
	first     time.Duration // from the scheduler's readiness to the first binding
}

// newFigures evaluates the times of bindings, which ascend and are ten at least.
func newFigures(ready time.Time, times []time.Time, cpu time.Duration) figures {
	n := len(times)
	rate := func(from, to int) float64 { return float64(to-from) / times[to].Sub(times[from]).Seconds() }
	return figures{
		pods:      n,
		perSecond: rate(0, n-1),
		midSecond: rate(n/10, n-n/10-1),
		cpuPerPod: cpu / time.Duration(n-1),
		first:     times[0].Sub(ready),
	}
}

// printHeader says in benchstat's format what comes.
func printHeader(w io.Writer) {
	fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: pinfold.dev/pinfold/bench/scheduler\n", runtime.GOOS, runtime.GOARCH)
	fmt.Fprintf(w, "Unit pods/s better=higher\nUnit mid-pods/s better=higher\nUnit sched-cpu-µs/pod better=lower\nUnit first-ms better=lower\n")
}

func printFigures(w io.Writer, nodes int, v variant, f figures) {
	fmt.Fprintf(w, "BenchmarkScheduler/nodes=%d/plugin=%s\t%8d\t%8.1f pods/s\t%8.1f mid-pods/s\t%8d sched-cpu-µs/pod\t%8d first-ms\n",
		nodes, v.name, f.pods, f.perSecond, f.midSecond, f.cpuPerPod.Microseconds(), f.first.Milliseconds())
}

// compare says how the medians with the plugin compare to those without.
func compare(results map[string][]figures) string {
	ratio := func(of func(figures) float64) float64 {
		return median(results[withPlugin], of) / median(results[withoutPlugin], of)
	}
	return fmt.Sprintf("with the plugin %.2f times the pods/s (target: 0.9 at least), %.2f times the mid-pods/s, %.2f times the CPU time; medians of %d",
		ratio(func(f figures) float64 { return f.perSecond }),
		ratio(func(f figures) float64 { return f.midSecond }),
		ratio(func(f figures) float64 { return float64(f.cpuPerPod) }),
		len(results[withPlugin]))
}

func median(all []figures, of func(figures) float64) float64 {
	values := make([]float64, len(all))
	for i := range all {
		values[i] = of(all[i])
	}
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}
