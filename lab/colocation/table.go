package colocation

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// WriteTable writes the comparison of the conditions for people.
func (r Result) WriteTable(w io.Writer) error {
	m := r.Machine
	fmt.Fprintf(w, "%d CPUs (%s), Linux %s; the service uses %v for a request, one every %v\n\n",
		m.CPUs, m.Model, m.Kernel, r.CPUTime.Round(1000), r.Every.Round(1000))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "condition\tpairs\tCPU\tbatch\twaited\tp50\tp90\tp99\tp99.9\tp90, mean change\tp99, mean change\tp99, median change")
	for _, c := range r.Compare() {
		if !c.Conclusive {
			fmt.Fprintf(t, "%s\t%d\tcannot conclude: at least %d pairs of undisturbed windows are needed\n", c.Condition, c.Pairs, leastPairs)
			continue
		}
		fmt.Fprintf(t, "%s\t%d\t%.1f%%\t%.1f%%\t%.2f ms", c.Condition, c.Pairs, 100*c.Used, 100*c.Batch, c.Waited/1000)
		for _, us := range c.Latency {
			fmt.Fprintf(t, "\t%.2f ms", us/1000)
		}
		if c.Condition == Alone {
			fmt.Fprint(t, "\t\t\t\n")
			continue
		}
		fmt.Fprintf(t, "\t%s\t%s\t%s\n", c.P90, c.P99, c.MedianP99)
	}
	return t.Flush()
}

// String formats a ratio as a change in percent, with its interval.
func (r Ratio) String() string {
	percent := func(ratio float64) float64 { return 100 * (ratio - 1) }
	return fmt.Sprintf("%+.1f%% (%+.1f%% to %+.1f%%)", percent(r.Average), percent(r.Low), percent(r.High))
}
