package workloads

import (
	"crypto/sha256"
	_ "embed" // for the page
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
	"strings"
	"time"

	"pinfold.dev/pinfold/core/counters"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/report"
	"pinfold.dev/pinfold/report/chart"
)

var (
	//go:embed page.html
	pageHTML string
	//go:embed page.css
	pageCSS string
	//go:embed page.js
	pageJS string
)

// pageRow is a row as the page's script reads it. What is not known is nil.
type pageRow struct {
	Namespace string        `json:"namespace"`
	Kind      string        `json:"kind"`
	Name      string        `json:"name"`
	Container string        `json:"container"`
	Finding   string        `json:"finding"`
	OfAll     *float32      `json:"all"`
	OfTimer   *float32      `json:"timer"`
	Mean      *float32      `json:"mean"`
	Limit     *float32      `json:"limit"`
	Request   *float32      `json:"request"`
	Freed     *float32      `json:"freed"`
	Advice    string        `json:"advice"`
	Evidence  []string      `json:"evidence"`
	Slices    [][2]*float32 `json:"slices"`
	Demand    []*float32    `json:"demand,omitempty"`
	Effects   [][3]*float32 `json:"effects,omitempty"` // limit, and the shares that it throttles without and with burst
}

// HTML writes a page with a table that can be searched and sorted. It loads nothing, and runs one
// script, which is in it.
func (r *Report) HTML(w io.Writer) error {
	hash := sha256.Sum256([]byte(pageJS))
	length := r.End.Sub(r.Begin)
	data := struct {
		Columns []string  `json:"columns"`
		Begin   int64     `json:"begin"` // in milliseconds since 1970
		Slice   int64     `json:"slice"`
		Shares  []float64 `json:"shares"` // of the periods with a demand
		Rows    []pageRow `json:"rows"`
	}{[]string{"Container", "Throttled", "Of timer", "Used", "Limit", "Request", "Frees", "Advice"}, r.Begin.UnixMilli(), 1, counters.DemandShares(), []pageRow{}}
	for i := range r.Rows {
		data.Rows = append(data.Rows, r.Rows[i].page())
		if n := len(r.Rows[i].Slices); n > 0 {
			data.Slice = length.Milliseconds() / int64(n)
		}
	}
	return chart.WritePage(w, pageHTML, struct {
		Style               template.CSS
		Hash, Summary, Time string
		Data                any
		Script              template.JS
	}{chart.CSS(pageCSS), "sha256-" + base64.StdEncoding.EncodeToString(hash[:]), r.Summary(),
		fmt.Sprintf("%s to %s. Amounts are in CPUs.", r.Begin.UTC().Format(time.DateTime), r.End.UTC().Format(time.DateTime)), data, template.JS(pageJS)}) //nolint:gosec // an embedded file
}

func (r *Row) page() pageRow {
	when := func(known bool, x float64) *float32 {
		short := float32(x) // enough, and shorter
		if !known || math.IsNaN(x) || math.IsInf(float64(short), 0) {
			return nil
		}
		return &short
	}
	known := r.Counted > 0
	p := pageRow{Namespace: report.Printable(r.Namespace), Kind: report.Printable(r.Kind), Name: report.Printable(r.Name), Container: report.Printable(r.Container),
		Finding: string(r.Finding), OfAll: when(known, r.OfAll.Value), OfTimer: when(known, r.OfTimer.Value), Mean: when(true, r.Mean),
		Limit: when(r.Limit > 0, r.Limit), Request: when(r.Request > 0, r.Request), Freed: when(r.NewRequest != nil, r.FreedCPUs), Advice: r.Advice()}
	p.Evidence = append(p.Evidence, strings.ToUpper(r.Reason[:1])+r.Reason[1:]+".", fmt.Sprintf("Seen for %s: %s with this limit and request, %s at a time lately.",
		quantity.Age(r.Seen), quantity.Count(r.Containers, "container"), quantity.Number(r.Replicas, 1)))
	if !math.IsNaN(r.Mean) {
		p.Evidence = append(p.Evidence, fmt.Sprintf("High usage is %s.", quantity.CPUs(r.High)))
	}
	if r.Burst {
		p.Evidence = append(p.Evidence, "Burst: it can use later what it did not use, and reserves nothing.")
	}
	for i, c := range []*counters.Change{r.NewLimit, r.NewRequest} {
		if c != nil {
			p.Evidence = append(p.Evidence, fmt.Sprintf("%s: %s.", []string{"Limit", "Request"}[i], c.Reason))
		}
	}
	for _, e := range r.Effects {
		p.Effects = append(p.Effects, [3]*float32{when(true, e.Limit), when(true, math.Round(e.Throttled*1e4)/1e4), when(true, math.Round(e.Bursted*1e4)/1e4)})
	}
	for _, cpus := range r.Demand {
		p.Demand = append(p.Demand, when(true, cpus))
	}
	if r.RecordingNeeded {
		p.Evidence = append(p.Evidence, "A recording shows whether a lower limit will do: pinfold sample --pod "+p.Namespace+"/POD --duration 10m -o FILE.parquet")
	}
	for _, s := range r.Slices {
		p.Slices = append(p.Slices, [2]*float32{when(true, s.OfAll), when(true, s.Mean)})
	}
	return p
}
