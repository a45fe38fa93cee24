package findings

import (
	"fmt"
	"io"
	"strings"

	"pinfold.dev/pinfold/report/chart"
)

// Picture is a chart in a file of its own, to which the Markdown of the same runs refers.
type Picture struct {
	File  string // name, which ends in .svg
	Title string
	chart *chart.Chart
}

// SVG writes the picture.
func (p Picture) SVG(w io.Writer) error { return p.chart.SVG(w) }

// Pictures returns the pictures of runs: the distributions of latencies.
func Pictures(runs []Run) (all []Picture) {
	for _, some := range pictures(runs) {
		all = append(all, some...)
	}
	return all
}

// pictures returns the pictures of each run.
func pictures(runs []Run) [][]Picture {
	all := make([][]Picture, len(runs))
	used := map[string]int{}
	for i, r := range runs {
		charts, _ := r.latencies()
		for _, c := range charts {
			if c.SVG(io.Discard) != nil { // empty, or with a remark on the page
				continue
			}
			name := strings.ReplaceAll(r.Result.Config.Name, " ", "-") + "-latency" // config.Check permits no other
			if used[name]++; used[name] > 1 {
				name += fmt.Sprintf("-%d", used[name])
			}
			c.Subtitle = plain(r.Result.Config.Question)
			all[i] = append(all[i], Picture{name + ".svg", c.Title, c})
		}
	}
	return all
}
