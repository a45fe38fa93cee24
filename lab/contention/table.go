package contention

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"pinfold.dev/pinfold/report"
)

// Score says how well the samples of a case agree with its trace.
type Score struct {
	Others, Own float64 // sampled less traced, as shares of the time
	// Culprit is set if the trace names one, or the samples do, and Right if they name the same.
	Culprit, Right bool
}

// least is the share of the time from which on others are culprits, and alike the ratio from which on
// two are equally so.
const least, alike = 0.02, 0.9

// Score returns the score of a case.
func (c *Case) Score() Score {
	s := Score{Others: c.Sampled.Others - c.Traced.Others, Own: c.Sampled.Own - c.Traced.Own}
	traced, sampled := c.Traced.first(), c.Sampled.first()
	s.Culprit = traced != "" || sampled != ""
	s.Right = traced != "" && sampled != "" && c.Traced.Behind[sampled] >= alike*c.Traced.Behind[traced]
	return s
}

// first returns behind whom most of the time was spent, "" if others hardly matter.
func (w *Waits) first() (by string) {
	if w.Others < least {
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(w.Behind)) {
		if by == "" || w.Behind[name] > w.Behind[by] {
			by = name
		}
	}
	return by
}

// Markdown writes the table.
func (r *Results) Markdown(out io.Writer) error {
	w := bufio.NewWriter(out)
	e := &r.Environment
	fmt.Fprintf(w, "%s, Linux %s, %s; `%s`.\n\n", e.Model, e.Kernel, e.Started.Format("2006-01-02"), strings.Join(r.Command, " "))
	fmt.Fprintln(w, "| cases | number | behind others, traced | error, mean | error, largest | behind own threads: error, largest | throttled | PSI | culprit right |")
	fmt.Fprintln(w, "|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, kind := range Kinds() {
		var cases []Case
		for _, c := range r.Cases {
			if c.Kind == kind {
				cases = append(cases, c)
			}
		}
		row(w, string(kind), cases)
	}
	row(w, "all", r.Cases)
	return report.Flush(w, "print the table")
}

func row(w io.Writer, name string, cases []Case) {
	if len(cases) == 0 {
		return
	}
	var traced, signed, largest, own, throttled, pressure float64
	culprits, right, measured := 0, 0, 0
	for i := range cases {
		c := &cases[i]
		s := c.Score()
		traced += c.Traced.Others
		signed += s.Others
		largest, own = math.Max(largest, math.Abs(s.Others)), math.Max(own, math.Abs(s.Own))
		throttled += c.Throttled
		if c.Pressure >= 0 {
			pressure += c.Pressure
			measured++
		}
		if s.Culprit {
			culprits++
		}
		if s.Right {
			right++
		}
	}
	n := float64(len(cases))
	psi := "–"
	if measured > 0 {
		psi = percent(pressure / float64(measured))
	}
	fmt.Fprintf(w, "| %s | %d | %s | %+.2f%% | %s | %s | %s | %s | %d of %d |\n", name, len(cases), percent(traced/n), 100*signed/n, percent(largest), percent(own),
		percent(throttled/n), psi, right, culprits)
}

func percent(share float64) string { return fmt.Sprintf("%.2f%%", 100*share) }
