package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// table is the rows of one machine, as text.
type table struct {
	title string
	cells [][]string // the first line is the heading
}

// leftColumns are text; the others are numbers and stand on the right.
const leftColumns = 3

// tables makes a table of every machine, the rows of which follow each other. What
// is the same as in the row above is left empty.
func tables(rows []Row) []table {
	var ts []table
	for i, r := range rows {
		if i == 0 || rows[i-1].Machine != r.Machine {
			ts = append(ts, table{title: fmt.Sprintf("%s, %d free sets", r.Machine, r.Sets), cells: [][]string{heading(r)}})
		}
		line := cells(r)
		if i > 0 && rows[i-1].Machine == r.Machine && rows[i-1].Free == r.Free && rows[i-1].CPUs == r.CPUs {
			line[0], line[1] = "", ""
		}
		t := &ts[len(ts)-1]
		t.cells = append(t.cells, line)
	}
	return ts
}

// verdictColumns says which verdicts are shown, and under which headings.
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

// printText prints tables for a terminal.
func printText(w io.Writer, ts []table) {
	for i, t := range ts {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "%s\n\n", t.title)
		widths := make([]int, len(t.cells[0]))
		for _, line := range t.cells {
			for c, cell := range line {
				widths[c] = max(widths[c], utf8.RuneCountInString(cell))
			}
		}
		for _, line := range t.cells {
			var b strings.Builder
			for c, cell := range line {
				if c > 0 {
					b.WriteString("  ")
				}
				pad := strings.Repeat(" ", widths[c]-utf8.RuneCountInString(cell))
				if c < leftColumns {
					b.WriteString(cell + pad)
				} else {
					b.WriteString(pad + cell)
				}
			}
			fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
		}
	}
}

// printMarkdown prints tables for a document.
func printMarkdown(w io.Writer, ts []table) {
	for i, t := range ts {
		if i > 0 {
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "**%s**\n\n", t.title)
		for l, line := range t.cells {
			fmt.Fprintf(w, "| %s |\n", strings.Join(line, " | "))
			if l == 0 {
				numbers := len(line) - leftColumns
				fmt.Fprintf(w, "|%s%s\n", strings.Repeat("---|", leftColumns), strings.Repeat("--:|", numbers))
			}
		}
	}
}

// printJSON prints the rows, one on a line.
func printJSON(w io.Writer, rows []Row) error {
	encoder := json.NewEncoder(w)
	for _, r := range rows {
		if err := encoder.Encode(r); err != nil {
			return fmt.Errorf("print the rows: %w", err)
		}
	}
	return nil
}
