// Package workloads shows the verdicts on workloads as text, JSON, CSV and a page, and makes patches
// of them.
package workloads

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"pinfold.dev/pinfold/core/counters"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
)

// Row is the verdict on the containers of one name in the pods of a workload.
type Row struct {
	Namespace, Kind, Name, Container string
	counters.Verdict
	Excluded bool // the user wants no advice on it
}

// Report is about the workloads of a time.
type Report struct {
	Begin, End time.Time
	Goal       counters.Goal
	Rows       []Row
}

// Sort puts those first that are throttled most, and then those whose request frees most.
func (r *Report) Sort() {
	slices.SortStableFunc(r.Rows, func(a, b Row) int {
		throttled := func(r *Row) float64 {
			if r.Finding == counters.Throttled {
				return r.OfAll.Value
			}
			return 0
		}
		return cmp.Or(cmp.Compare(throttled(&b), throttled(&a)), cmp.Compare(b.FreedCPUs, a.FreedCPUs),
			strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Container, b.Container))
	})
}

// ThrottledAbove returns how many workloads were throttled in more than a share of all periods, or had
// one container that was. Where that is uncertain, the best estimate counts.
func (r *Report) ThrottledAbove(share float64) (n int) {
	for i := range r.Rows {
		if r.Rows[i].Finding != counters.Unknown && !r.Rows[i].Excluded && max(r.Rows[i].OfAll.Value, r.Rows[i].Worst) > share {
			n++
		}
	}
	return n
}

// Summary is the answer in one or two sentences.
func (r *Report) Summary() string {
	var throttled, needless, record, unknown, excluded int
	freed, sure := 0., 0.
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Excluded {
			excluded++
			continue
		}
		switch row.Finding {
		case counters.Throttled:
			throttled++
		case counters.Unknown:
			unknown++
		}
		if row.Needless {
			needless++
		}
		if row.RecordingNeeded {
			record++
		}
		if c := row.NewRequest; c != nil && row.FreedCPUs > 0 {
			freed += row.FreedCPUs
			if c.Sure {
				sure += row.FreedCPUs
			}
		}
	}
	text := fmt.Sprintf("%d of %s %s throttled in more than %s of all periods", throttled, quantity.Count(len(r.Rows)-excluded, "container"), quantity.Are(throttled), quantity.Share(r.Goal.Throttled))
	if throttled > 0 {
		text += fmt.Sprintf(", %d of them at less than %s of the limit", needless, quantity.Share(r.Goal.Utilisation))
	}
	text += fmt.Sprintf(". Requests reserve %s more than high usage, %s of that for sure.", quantity.CPUs(freed), quantity.CPUs(sure))
	if record > 0 {
		text += fmt.Sprintf(" For %d, a recording of ten minutes has to show the limit (pinfold sample).", record)
	}
	if unknown > 0 {
		text += fmt.Sprintf(" Of %d, too little is known.", unknown)
	}
	if excluded > 0 {
		text += fmt.Sprintf(" %d more %s excluded.", excluded, quantity.Are(excluded))
	}
	return text
}

// Text writes a table, without the workloads that should stay as they are unless all is set.
func (r *Report) Text(w io.Writer, all bool) error {
	if _, err := fmt.Fprintf(w, "%s\n%s to %s\n", r.Summary(), r.Begin.Format(time.RFC3339), r.End.Format(time.RFC3339)); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	left := 0
	for i := range r.Rows {
		row := &r.Rows[i]
		advice := row.Advice()
		if advice == "" && !all {
			left++
			continue
		}
		if i == left {
			fmt.Fprintln(table, "\nNAMESPACE\tWORKLOAD\tCONTAINER\tTHROTTLED\tOF TIMER\tUSED\tLIMIT\tREQUEST\tADVICE")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", report.Printable(row.Namespace), report.Printable(row.Kind+"/"+row.Name), report.Printable(row.Container),
			share(row, row.OfAll), share(row, row.OfTimer), used(row), amount(row.Limit), amount(row.Request), advice)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if left > 0 {
		need, them := "need", "them"
		if left == 1 {
			need, them = "needs", "it"
		}
		_, err := fmt.Fprintf(w, "\n%s %s no change; -v shows %s, too.\n", quantity.Count(left, "container"), need, them)
		return err
	}
	return nil
}

// Advice is what to change, in a few words; "" if nothing.
func (r *Row) Advice() string {
	var words []string
	add := func(what string, c *counters.Change, from float64) {
		if c == nil {
			return
		}
		text := fmt.Sprintf("%s %s to %s", what, amount(from), amount(c.To))
		if !c.Sure {
			text += "?"
		}
		words = append(words, text)
	}
	if r.Excluded {
		words = append(words, "excluded")
	}
	if r.Burst {
		words = append(words, "burst")
	}
	add("limit", r.NewLimit, r.Limit)
	add("request", r.NewRequest, r.Request)
	if r.RecordingNeeded {
		words = append(words, "record")
	}
	return strings.Join(words, ", ")
}

func amount(cpus float64) string {
	if cpus == 0 {
		return "-"
	}
	return quantity.CPUs(cpus).Amount()
}

func used(r *Row) string {
	if math.IsNaN(r.Mean) {
		return "-"
	}
	return quantity.CPUs(r.Mean).Amount()
}

func share(r *Row, i counters.Interval) string {
	if r.Counted == 0 || math.IsNaN(i.Value) {
		return "-"
	}
	return quantity.Share(i.Value).String()
}

// Columns are the names of the columns of CSV, and the keys of JSON. Amounts are in CPUs, shares from
// 0 to 1, times in seconds.
func Columns() []string {
	return []string{"namespace", "kind", "name", "container", "finding", "needless", "throttled_of_all", "throttled_of_all_low", "throttled_of_all_high",
		"throttled_of_timer", "seen_seconds", "containers", "other_containers", "replicas", "mean_cpus", "high_cpus", "limit_cpus", "request_cpus",
		"held_back_cpus_low", "held_back_cpus_high", "burst", "new_limit_cpus", "new_limit_sure", "new_request_cpus", "new_request_sure", "freed_cpus",
		"recording_needed", "excluded", "reason"}
}

// Values are those of the columns: strings, numbers, truth values, and nil where there is none.
func (r *Row) Values() []any {
	known := r.Counted > 0
	when := func(known bool, x float64) any {
		if !known || math.IsNaN(x) || math.IsInf(x, 0) {
			return nil
		}
		return x
	}
	change := func(c *counters.Change) (to, sure any) {
		if c == nil {
			return nil, nil
		}
		return when(true, c.To), c.Sure
	}
	limit, limitSure := change(r.NewLimit)
	request, requestSure := change(r.NewRequest)
	held := r.HeldBack[1] > 0
	return []any{r.Namespace, r.Kind, r.Name, r.Container, string(r.Finding), r.Needless, when(known, r.OfAll.Value), when(known, r.OfAll.Low), when(known, r.OfAll.High),
		when(known, r.OfTimer.Value), r.Seen.Seconds(), r.Containers, r.Others, when(true, r.Replicas), when(true, r.Mean), when(!math.IsNaN(r.Mean), r.High),
		when(r.Limit > 0, r.Limit), when(r.Request > 0, r.Request), when(held, r.HeldBack[0]), when(held, r.HeldBack[1]), r.Burst, limit, limitSure, request, requestSure,
		when(r.NewRequest != nil, r.FreedCPUs), r.RecordingNeeded, r.Excluded, r.Reason}
}

// CSV writes a table with a line for each row.
func (r *Report) CSV(w io.Writer) error {
	out := csv.NewWriter(w)
	lines := [][]string{Columns()}
	for i := range r.Rows {
		var line []string
		for _, v := range r.Rows[i].Values() {
			text := ""
			switch v := v.(type) {
			case nil:
			case float64:
				text = strconv.FormatFloat(v, 'g', 6, 64)
			case string:
				text = cell(v)
			default:
				text = fmt.Sprint(v)
			}
			line = append(line, text)
		}
		lines = append(lines, line)
	}
	return out.WriteAll(lines)
}

// cell returns a text that a spreadsheet does not take for a formula.
func cell(text string) string {
	text = report.Printable(text)
	if text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}

// JSON returns what to encode as JSON: the same columns.
func (r *Report) JSON() any {
	rows := make([]map[string]any, len(r.Rows))
	for i := range r.Rows {
		rows[i] = map[string]any{}
		values := r.Rows[i].Values()
		for k, name := range Columns() {
			rows[i][name] = values[k]
		}
	}
	return map[string]any{"summary": r.Summary(), "begin": r.Begin, "end": r.End, "workloads": rows}
}
