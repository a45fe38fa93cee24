package cluster

import (
	"bytes"
	"cmp"
	_ "embed" // for the page
	"html/template"
	"maps"
	"math"
	"slices"
	"strings"

	"pinfold.dev/pinfold/report/chart"
)

var (
	//go:embed map.html
	mapHTML string
	//go:embed map.css
	mapCSS string
)

const (
	// mostVictims, mostCulprits and mostPairs are how many the page has.
	mostVictims, mostCulprits, mostPairs = 40, 12, 500
)

// page returns a page with a map of who waits behind whom, and the pairs.
func (all *contention) page() ([]byte, error) {
	victims, culprits := map[string]float64{}, map[string]float64{}
	cells, largest := map[[2]string]float64{}, 0.
	for i := range all.Pairs {
		p := &all.Pairs[i]
		waits, behind := p.waits(), p.behind()
		victims[waits] += p.CPUs
		culprits[behind] += p.CPUs
		cells[[2]string{waits, behind}] += p.CPUs
		largest = max(largest, cells[[2]string{waits, behind}])
	}
	shown := heaviest(culprits, mostCulprits)
	type cell struct {
		CPUs, Part float64 // Part is how strong its colour is, in percent
		Behind     string
	}
	type row struct {
		Waits       string
		Cells       []cell
		Others, All float64
	}
	var rows []row
	for _, waits := range heaviest(victims, mostVictims) {
		one := row{Waits: waits, All: victims[waits], Others: victims[waits]}
		for _, behind := range shown {
			cpus := cells[[2]string{waits, behind}]
			one.Cells = append(one.Cells, cell{cpus, math.Round(60 * math.Sqrt(cpus/largest)), behind})
			one.Others -= cpus
		}
		one.Others = max(0, one.Others)
		rows = append(rows, one)
	}
	var page bytes.Buffer
	var text strings.Builder
	if err := all.sentence(&text); err != nil {
		return nil, err
	}
	err := chart.WritePage(&page, mapHTML, map[string]any{
		"Style": chart.CSS(mapCSS), "Sentence": text.String(), "Culprits": shown, "Rows": rows, "MoreCulprits": len(culprits) > len(shown),
		"Hidden": len(victims) - len(rows), "Pairs": all.rows(), "HiddenPairs": max(0, len(all.Pairs)-mostPairs), "Breaks": breaks,
	})
	return page.Bytes(), err
}

// breaks allows a line to break after the slashes of a name.
func breaks(name string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(name), "/", "/<wbr>")) //nolint:gosec // it is escaped
}

// heaviest returns the names with the largest values, the largest first.
func heaviest(all map[string]float64, most int) []string {
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	return names[:min(len(names), most)]
}

// pairRow is a pair on the page.
type pairRow struct {
	Waits, Behind string
	CPUs          float64
}

func (all *contention) rows() (rows []pairRow) {
	for i := range all.Pairs[:min(len(all.Pairs), mostPairs)] {
		p := &all.Pairs[i]
		rows = append(rows, pairRow{p.waits(), p.behind(), p.CPUs})
	}
	return rows
}
