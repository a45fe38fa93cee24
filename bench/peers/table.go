package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	"pinfold.dev/pinfold/bench/internal/command"
)

// tables returns a table for each machine, whose rows are consecutive. It leaves cells empty that
// repeat the row above.
func tables(rows []Row) []command.Table {
	var ts []command.Table
	for i, r := range rows {
		if i == 0 || rows[i-1].Machine != r.Machine {
			ts = append(ts, command.Table{Title: fmt.Sprintf("%s, %d free sets", r.Machine, r.Sets), Left: 3, Rows: [][]string{heading(r)}})
		}
		line := cells(r)
		if i > 0 && rows[i-1].Machine == r.Machine && rows[i-1].Free == r.Free && rows[i-1].CPUs == r.CPUs {
			line[0], line[1] = "", ""
		}
		t := &ts[len(ts)-1]
		t.Rows = append(t.Rows, line)
	}
	return ts
}

// verdictColumns returns the verdicts to show and their headings.
func verdictColumns() ([]verdict, []string) {
	return []verdict{asGood, moreNodes, moreDistance, moreSplit, moreLLCs},
		[]string{"as good", "more nodes", "farther", "more split", "more LLCs"}
}

func heading(r Row) []string {
	_, names := verdictColumns()
	line := append([]string{"free", "CPUs", "chosen by", "NUMA nodes", "distance", "split cores", "LLCs"}, names...)
	if r.Median > 0 {
		line = append(line, "median CPU time")
	}
	return line
}

func cells(r Row) []string {
	line := []string{string(r.Free), strconv.Itoa(r.CPUs), r.Chooser}
	for _, mean := range []float64{r.NUMANodes, r.Distance, r.SplitCores, r.LLCs} {
		line = append(line, strconv.FormatFloat(mean, 'f', 2, 64))
	}
	shown, _ := verdictColumns()
	for _, v := range shown {
		line = append(line, percent(r.Verdicts[v], r.Sets))
	}
	if r.Median > 0 {
		line = append(line, microseconds(r.Median))
	}
	return line
}

func percent(part, whole int) string {
	if part == 0 {
		return "-"
	}
	return strconv.FormatFloat(100*float64(part)/float64(whole), 'f', 1, 64) + "%"
}

func microseconds(d time.Duration) string {
	us := float64(d) / float64(time.Microsecond)
	if us < 10 {
		return strconv.FormatFloat(us, 'f', 2, 64) + " us"
	}
	return strconv.FormatFloat(us, 'f', 0, 64) + " us"
}

// printJSON prints one row per line.
func printJSON(w io.Writer, rows []Row) error {
	encoder := json.NewEncoder(w)
	for _, r := range rows {
		if err := encoder.Encode(r); err != nil {
			return fmt.Errorf("print the rows: %w", err)
		}
	}
	return nil
}

// Row is the result of one contender on the free sets of one case.
type Row struct {
	Machine string  `json:"machine"`
	Free    scatter `json:"free"`
	CPUs    int     `json:"cpus"` // wanted
	Chooser string  `json:"chooser"`
	Sets    int     `json:"sets"` // free sets

	// Means over the free sets; see placement.Quality.
	NUMANodes  float64 `json:"numaNodes"`
	Distance   float64 `json:"distance"`
	SplitCores float64 `json:"splitCores"`
	LLCs       float64 `json:"llcs"`

	// Verdicts counts the free sets by verdict.
	Verdicts map[verdict]int `json:"verdicts"`
	// Median is the CPU time of a decision, 0 if times are omitted.
	Median time.Duration `json:"medianNanoseconds,omitempty"`
}
