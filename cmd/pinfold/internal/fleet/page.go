package fleet

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"

	"pinfold.dev/pinfold/core/names"
	"pinfold.dev/pinfold/core/quantity"
	"pinfold.dev/pinfold/core/verdict"
	"pinfold.dev/pinfold/kube/api"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

var page = template.Must(template.New("page").Parse(pageHTML))

// row is what the page has of a workload. Its script prints texts as they are.
type row struct {
	Verdict        verdict.Action `json:"verdict"`
	Rank           int            `json:"rank"`
	Namespace      string         `json:"namespace"`
	Workload       string         `json:"workload"`
	Container      string         `json:"container"`
	Pods           int            `json:"pods"`
	CPUs           float64        `json:"cpus"`
	Limit          string         `json:"limit"`
	LimitCPUs      float64        `json:"limitCPUs"`
	Throttled      string         `json:"throttled"`
	ThrottledShare float64        `json:"throttledShare"`
	Set            string         `json:"set"`
	Predicted      string         `json:"predicted"`
	PredictedShare float64        `json:"predictedShare"`
	Details        []string       `json:"details"`
	Command        string         `json:"command,omitempty"`
}

// Page writes a page about all workloads, which are sorted. It needs no other file.
func Page(w io.Writer, all []Workload, r *Request) error {
	rows := make([]row, len(all))
	for i := range all {
		rows[i] = all[i].row(i)
	}
	err := page.Execute(w, map[string]any{
		"Style": template.CSS(pageCSS), "Script": template.JS(pageJS), //nolint:gosec // they are files of this package
		"Count": quantity.Count(len(all), "container"), "Sentence": r.sentence(all), "Rows": rows,
		"Source": "Prometheus", "Goal": quantity.Share(r.Goal).String(), "Time": r.At.UTC().Format("2006-01-02 15:04 UTC"),
	})
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

func (w *Workload) row(rank int) row {
	one := row{w.Action, rank, w.Namespace, w.Workload, w.Container, w.Pods, known(w.CPUs), limit(w.Limit), w.Limit, share(w.Throttled), known(w.Throttled),
		w.set(), atMost(w.Predicted), known(w.Predicted), []string{w.Reason + "."}, ""}
	if w.High > 0 {
		form := "The demands that agree with the counters need limits of %s to %s with a burst of 100%%."
		if w.Measured {
			form = "Its agents have measured single periods: it needs a limit of %s to %s with a burst of 100%%."
		}
		one.Details = append(one.Details, fmt.Sprintf(form, quantity.CPUs(w.Low).Amount(), quantity.CPUs(w.High)))
	}
	one.Details = append(one.Details, fmt.Sprintf("Counters of %s in all, of %s.", hours(w.Time.Hours()), quantity.Count(w.Pods, "pod")))
	switch {
	case w.Decide():
		namespace := "NAMESPACE"
		if names.IsLabel(w.Namespace) { // whoever writes metrics may write anything
			namespace = w.Namespace
		}
		one.Command = fmt.Sprintf("kubectl pinfold sample POD -n %s --duration 10m -o FILE && pinfold advise FILE", namespace)
	case w.Action == verdict.Burst:
		one.Command = "annotation of the pods: " + api.CPUBurstAnnotation + ": '" + burst + "'"
	}
	return one
}

// known returns a value for sorting: unknown ones come last.
func known(v *float64) float64 {
	if v == nil {
		return -1
	}
	return *v
}

func hours(h float64) string {
	if h >= 48 {
		return fmt.Sprintf("%.0f days", h/24)
	}
	return fmt.Sprintf("%.1f hours", h)
}
