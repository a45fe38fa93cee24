package findings

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/experiment"
	"pinfold.dev/pinfold/core/quantity"
)

// generatorRow is what a load cost, in all undisturbed windows together.
type generatorRow struct {
	Load     string
	Cost     string // CPU time of the load generator for a request, the median
	Share    string // of the CPUs, the largest
	Lateness string // the largest
	Most     string // requests per second if the load generator used all CPUs
}

// generators returns a row for each load of which the costs were measured.
func (r Run) generators() []generatorRow {
	var all []generatorRow
	for _, load := range r.loads() {
		costs := r.undisturbed(experiment.Cost, load)
		if len(costs) == 0 {
			continue
		}
		cost := costs[len(costs)/2]
		row := generatorRow{Load: plain(cmp.Or(load, "all")), Cost: experiment.Cost.Format(cost),
			Share: r.largest(experiment.Generator, load), Lateness: r.largest(experiment.Lateness, load), Most: "not known"}
		if most := 1e6 * float64(r.Result.Environment.CPUs) / cost; most > 0 && plausible(most) {
			row.Most = experiment.Calls.Format(most)
		}
		all = append(all, row)
	}
	return all
}

func (r Run) largest(f experiment.Figure, load string) string {
	if values := r.undisturbed(f, load); len(values) > 0 {
		return f.Format(values[len(values)-1])
	}
	return "not measured"
}

// undisturbed returns the values of a figure under a load in ascending order, of all conditions.
func (r Run) undisturbed(f experiment.Figure, load string) []float64 {
	var values []float64
	for _, w := range r.Result.Windows {
		if value, ok := w.Figures[f]; ok && w.Disturbed == "" && w.Load == load {
			values = append(values, value)
		}
	}
	slices.Sort(values)
	return values
}

// disturbance is a reason why windows were not used.
type disturbance struct {
	windows   int
	text      string // with the least value
	low, high float64
	most      string // the text of the largest value
}

// maxReasons is the number of reasons up to which all are listed.
const maxReasons = 8

// disturbances says how many windows were disturbed, and lists why.
func (r Run) disturbances() (summary string, reasons []string) {
	groups := map[string]*disturbance{}
	disturbed := 0
	for _, w := range r.Result.Windows {
		if w.Disturbed != "" {
			disturbed++
			note(groups, plain(w.Disturbed))
		}
	}
	all := len(r.Result.Windows)
	switch {
	case all == 0:
		return "No window was measured.", nil
	case disturbed == 0:
		return fmt.Sprintf("None of the %s was disturbed.", quantity.Count(all, "window")), nil
	}
	summary = fmt.Sprintf("%d of the %s %s disturbed and not used. %s", disturbed, quantity.Count(all, "window"), was(disturbed), r.repeated())
	sorted := make([]*disturbance, 0, len(groups))
	for _, d := range groups {
		sorted = append(sorted, d)
	}
	slices.SortFunc(sorted, func(a, b *disturbance) int { return cmp.Or(b.windows-a.windows, cmp.Compare(a.text, b.text)) })
	for i, d := range sorted {
		if i == maxReasons {
			return summary, append(reasons, fmt.Sprintf("%d other reasons", len(sorted)-i))
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s", quantity.Count(d.windows, "window"), d))
	}
	return summary, reasons
}

func was(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// measure matches the number in a reason.
var measure = regexp.MustCompile(`[0-9]+(\.[0-9]+)?%?`)

// note adds a reason. Those that differ in one number only are counted together.
func note(groups map[string]*disturbance, reason string) {
	at := measure.FindStringIndex(reason)
	if at == nil {
		at = []int{len(reason), len(reason)}
	}
	kind := reason[:at[0]] + "\n" + reason[at[1]:]
	word := reason[at[0]:at[1]]
	value, _ := strconv.ParseFloat(strings.TrimSuffix(word, "%"), 64) // only orders; 0 without a number
	d := groups[kind]
	switch {
	case d == nil:
		d = &disturbance{text: reason, most: reason, low: value, high: value}
		groups[kind] = d
	case value < d.low:
		d.low, d.text = value, reason
	case value > d.high:
		d.high, d.most = value, reason
	}
	d.windows++
}

// String returns the reason, with the range of its number.
func (d *disturbance) String() string {
	if d.text == d.most {
		return d.text
	}
	at := measure.FindStringIndex(d.text)
	return d.text[:at[1]] + " to " + measure.FindString(d.most) + d.text[at[1]:]
}

// repeated says how many measurements succeeded after a disturbance.
func (r Run) repeated() string {
	type place struct {
		round           int
		condition, load string
	}
	disturbed, good := map[place]bool{}, map[place]bool{}
	for _, w := range r.Result.Windows {
		at := place{w.Round, w.Condition, w.Load}
		if w.Disturbed == "" {
			good[at] = true
		} else {
			disturbed[at] = true
		}
	}
	missing := 0
	for at := range disturbed {
		if !good[at] {
			missing++
		}
	}
	if missing == 0 {
		return "Each was measured again without disturbance."
	}
	return fmt.Sprintf("%s of a round could not be measured without disturbance.", quantity.Count(missing, "condition"))
}
