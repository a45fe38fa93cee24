package fleet

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/prometheus/common/model"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/report"
)

// order is that of actions in a list: first what is throttled and can be mended for nothing.
func order() []verdict.Action {
	return []verdict.Action{verdict.Burst, verdict.Remove, verdict.Raise, verdict.Unknown, verdict.Lower, verdict.Fine, verdict.NoLimit}
}

// Sort sorts workloads: by what to do, and then by how many CPUs are concerned.
func Sort(all []Workload) {
	weight := func(w *Workload) float64 {
		switch {
		case w.Action == verdict.Lower:
			return (w.Limit - w.Advised) * float64(w.Pods)
		case w.Throttled != nil:
			return *w.Throttled * w.Limit * float64(w.Pods)
		}
		return 0
	}
	slices.SortFunc(all, func(a, b Workload) int {
		return cmp.Or(cmp.Compare(slices.Index(order(), a.Action), slices.Index(order(), b.Action)), cmp.Compare(weight(&b), weight(&a)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Workload, b.Workload), cmp.Compare(a.Container, b.Container))
	})
}

// mostRows is how many workloads are printed without wide.
const mostRows = 40

// Print prints a sentence about all workloads, which are sorted, and a table.
func Print(out io.Writer, all []Workload, r *Request, wide bool) error {
	w := bufio.NewWriter(out)
	fmt.Fprintln(w, r.sentence(all))
	shown := all
	if !wide {
		shown = all[:min(len(all), mostRows)]
	}
	if len(shown) > 0 {
		fmt.Fprintln(w)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(shown) > 0 {
		fmt.Fprintln(table, "VERDICT\tWORKLOAD\tCONTAINER\tPODS\tCPUS\tLIMIT\tTHROTTLED\tSET\tPREDICTED")
	}
	for i := range shown {
		c := &shown[i]
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\n", c.Action, report.Printable(c.Namespace+"/"+c.Workload), report.Printable(c.Container), c.Pods,
			cpus(c.CPUs), limit(c.Limit), share(c.Throttled), c.set(), atMost(c.Predicted))
	}
	_ = table.Flush() // w keeps the error
	if more := len(all) - len(shown); more > 0 {
		fmt.Fprintf(w, "and %d more (-v)\n", more)
	}
	if wide {
		for i := range shown {
			c := &shown[i]
			fmt.Fprintf(w, "\n%s %s: %s.\n", report.Printable(c.Namespace+"/"+c.Workload), report.Printable(c.Container), c.Reason)
		}
	}
	if slices.ContainsFunc(all, func(w Workload) bool { return w.Decide() }) {
		fmt.Fprintln(w, "\nWhere the counters do not tell, a recording of ten minutes does:\n  kubectl pinfold sample POD -n NAMESPACE --duration 10m -o FILE && pinfold advise FILE")
	}
	return report.Flush(w, "print the verdicts")
}

// PrintCSV prints a row for each of all workloads. What is unknown is empty.
func PrintCSV(out io.Writer, all []Workload) error {
	w := csv.NewWriter(out)
	text := func(s string) string { // spreadsheets take what begins like this for a formula
		if s = report.Printable(s); s != "" && strings.ContainsRune("=+-@", rune(s[0])) {
			return "'" + s
		}
		return s
	}
	number := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', 4, 64)
	}
	positive := func(v float64) string {
		if v == 0 {
			return ""
		}
		return number(&v)
	}
	rows := [][]string{{"namespace", "workload", "container", "pods", "verdict", "cpus", "limit_cpus", "throttled_share", "advised_cpus", "predicted_share", "reason"}}
	for i := range all {
		c := &all[i]
		rows = append(rows, []string{text(c.Namespace), text(c.Workload), text(c.Container), strconv.Itoa(c.Pods), string(c.Action), number(c.CPUs), positive(c.Limit),
			number(c.Throttled), positive(c.Advised), number(c.Predicted), c.Reason})
	}
	if err := w.WriteAll(rows); err != nil {
		return fmt.Errorf("print the verdicts: %w", err)
	}
	return nil
}

// sentence says what is to be done in all.
func (r *Request) sentence(all []Workload) string {
	count := map[verdict.Action]int{}
	for i := range all {
		count[all[i].Action]++
	}
	begin := ""
	if r.Incomplete {
		begin = "Incomplete: the server failed in the middle, or was interrupted. "
	}
	return begin + fmt.Sprintf("%s in the %s before %s: %d are throttled in more than %s of their periods and need only a burst (an annotation, no CPUs), the limits of %d protect nobody, %d need a larger one, %d could give some back, %d are fine; of %d the counters do not tell.",
		quantity.Count(len(all), "container"), shortTime(r), r.At.UTC().Format("2006-01-02 15:04 UTC"), count[verdict.Burst], quantity.Share(r.Goal),
		count[verdict.Remove], count[verdict.Raise], count[verdict.Lower], count[verdict.Fine], count[verdict.Unknown])
}

// set is what to set.
func (w *Workload) set() string {
	switch {
	case w.Action == verdict.Burst:
		return "burst"
	case w.Action == verdict.Remove:
		return "no limit"
	case w.Advised > 0:
		return fmt.Sprintf("%s and burst", quantity.CPUs(w.Advised).Amount())
	case w.Action == verdict.Raise:
		return "more than " + quantity.CPUs(w.Low).Amount()
	}
	return "-"
}

func cpus(v *float64) string {
	if v == nil {
		return "unknown"
	}
	return strconv.FormatFloat(*v, 'f', 3, 64)
}

func limit(cpus float64) string {
	if cpus == 0 {
		return "unknown"
	}
	return quantity.CPUs(cpus).Amount()
}

func share(s *float64) string {
	if s == nil {
		return "unknown"
	}
	return quantity.Share(*s).String()
}

func atMost(s *float64) string {
	if s == nil {
		return "-"
	}
	return "at most " + quantity.Share(*s).String()
}

func shortTime(r *Request) string { return model.Duration(r.Since).String() }
