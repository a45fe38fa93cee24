package findings

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/lab/experiment"
)

// generators returns what each load cost in all undisturbed windows together: a request in the
// median, the largest share of the CPUs and lateness, and how many requests a second could be sent
// with all CPUs.
func (r Run) generators() table {
	t := table{Heads: []string{"load", "CPU time of a request", "largest share of the CPUs", "largest lateness", "most requests it could send"}}
	for _, load := range r.Result.Config.LoadNames() {
		costs := r.undisturbed(experiment.Cost, load)
		if len(costs) == 0 {
			continue
		}
		cost, most := costs[len(costs)/2], "not known"
		if n := 1e6 * float64(r.Result.Environment.CPUs) / cost; n > 0 && plausible(n) {
			most = experiment.Calls.Format(n)
		}
		t.Groups = append(t.Groups, group{plain(cmp.Or(load, "all")), [][]string{
			{experiment.Cost.Format(cost), r.largest(experiment.Generator, load), r.largest(experiment.Lateness, load), most}}})
	}
	return t
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

// maxReasons is the number of reasons up to which all are listed.
const maxReasons = 8

// measure matches the number in a reason.
var measure = regexp.MustCompile(`[0-9]+(\.[0-9]+)?%?`)

// disturbances says how many windows were disturbed, and lists why. Reasons that differ in one
// number only are counted together, with its range.
func (r Run) disturbances() (summary string, reasons []string) {
	alike := map[[2]string][]string{} // the numbers, by what is before and after them
	disturbed := 0
	for _, w := range r.Result.Windows {
		if w.Disturbed == "" {
			continue
		}
		disturbed++
		reason := plain(w.Disturbed)
		at := measure.FindStringIndex(reason)
		if at == nil {
			at = []int{len(reason), len(reason)}
		}
		kind := [2]string{reason[:at[0]], reason[at[1]:]}
		alike[kind] = append(alike[kind], reason[at[0]:at[1]])
	}
	all := len(r.Result.Windows)
	switch {
	case all == 0:
		return "No window was measured.", nil
	case disturbed == 0:
		return fmt.Sprintf("None of the %s was disturbed.", quantity.Count(all, "window")), nil
	}
	was := "were"
	if disturbed == 1 {
		was = "was"
	}
	kinds := slices.SortedFunc(maps.Keys(alike), func(a, b [2]string) int {
		return cmp.Or(len(alike[b])-len(alike[a]), cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]))
	})
	for i, kind := range kinds {
		if i == maxReasons {
			reasons = append(reasons, fmt.Sprintf("%d other reasons", len(kinds)-i))
			break
		}
		reasons = append(reasons, fmt.Sprintf("%s: %s%s%s", quantity.Count(len(alike[kind]), "window"), kind[0], span(alike[kind]), kind[1]))
	}
	return fmt.Sprintf("%d of the %s %s disturbed and not used. %s", disturbed, quantity.Count(all, "window"), was, r.repeated()), reasons
}

// span returns the least and the largest of some numbers.
func span(numbers []string) string {
	value := func(number string) float64 {
		v, _ := strconv.ParseFloat(strings.TrimSuffix(number, "%"), 64) // only orders; 0 without a number
		return v
	}
	order := func(a, b string) int { return cmp.Compare(value(a), value(b)) }
	low, high := slices.MinFunc(numbers, order), slices.MaxFunc(numbers, order)
	if value(low) == value(high) {
		return low
	}
	return low + " to " + high
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
