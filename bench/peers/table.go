package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// row is the result of one contender on the free sets of one case.
type row struct {
	machine string
	free    scatter
	cpus    int // wanted
	chooser string
	sets    int // free sets
	// Means over the free sets; see placement.Quality.
	numaNodes, distance, splitCores, llcs float64
	verdicts                              map[verdict]int // number of free sets
	median                                time.Duration   // CPU time of a decision
}

// tables returns a table for each machine, whose rows are consecutive, in Markdown. Cells that
// repeat the row above are empty.
func tables(rows []row) string {
	var b strings.Builder
	for i, r := range rows {
		if i == 0 || rows[i-1].machine != r.machine {
			if i > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(r.heading())
		}
		cells := append(r.cells(), microseconds(r.median))
		if i > 0 && rows[i-1].machine == r.machine && rows[i-1].free == r.free && rows[i-1].cpus == r.cpus {
			cells[0], cells[1] = "", ""
		}
		fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | "))
	}
	return b.String()
}

// verdictColumns returns the verdicts to show.
func verdictColumns() []verdict {
	return []verdict{asGood, moreNodes, moreDistance, moreSplit, moreLLCs}
}

// heading returns the title of the table of a machine, and its first lines.
func (r row) heading() string {
	return fmt.Sprintf("**%s, %d free sets**\n\n", r.machine, r.sets) +
		"| free | CPUs | chosen by | NUMA nodes | distance | split cores | LLCs" +
		" | as good | more nodes | farther | more split | more LLCs | median CPU time |\n" +
		"|---|---|---|" + strings.Repeat("--:|", 10) + "\n"
}

// cells returns the cells of a row without its time.
func (r row) cells() []string {
	line := []string{string(r.free), strconv.Itoa(r.cpus), r.chooser}
	for _, mean := range []float64{r.numaNodes, r.distance, r.splitCores, r.llcs} {
		line = append(line, strconv.FormatFloat(mean, 'f', 2, 64))
	}
	for _, v := range verdictColumns() {
		share := "-"
		if n := r.verdicts[v]; n > 0 {
			share = strconv.FormatFloat(100*float64(n)/float64(r.sets), 'f', 1, 64) + "%"
		}
		line = append(line, share)
	}
	return line
}

func microseconds(d time.Duration) string {
	us, places := float64(d)/float64(time.Microsecond), 0
	if us < 10 {
		places = 2
	}
	return strconv.FormatFloat(us, 'f', places, 64) + " us"
}
