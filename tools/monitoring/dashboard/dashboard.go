// Package dashboard defines Pinfold's Grafana dashboard: its panels and their queries. The file
// that Grafana imports, deploy/chart/files/dashboard.json, is generated from it by
//
//	PINFOLD_UPDATE=1 go test -C tools/monitoring ./dashboard
//
// In queries, @node stands for the matchers of the selected nodes, and @pods for those of the
// selected nodes, namespaces and pods.
package dashboard

import "pinfold.dev/pinfold/tools/monitoring/grafana"

// row is a title and the panels below it.
type row struct {
	title  string
	panels []sized
}

// sized is a panel with its size in cells.
type sized struct {
	width, height int
	grafana.Panel
}

// New returns the dashboard.
func New() grafana.Dashboard {
	return grafana.Dashboard{
		UID: "pinfold", Title: "Pinfold", SchemaVersion: grafana.SchemaVersion, Tags: []string{"kubernetes", "cpu", "pinfold"},
		Description:  "CPUs, placement, throttling and burst of the nodes that run pinfold-agent.",
		GraphTooltip: 1, Refresh: "1m", Time: grafana.Range{From: "now-3h", To: "now"}, Timezone: "browser",
		Templating: grafana.Templating{List: variables()},
		Panels:     layOut([]row{nodeRow(), throttlingRow(), burstRow(), batchRow(), delayRow(), samplerRow()}),
	}
}

func variables() []grafana.Variable {
	ask := func(name, label, query string) grafana.Variable {
		return grafana.Variable{Name: name, Label: label, Type: "query", DataSource: source, Query: query, Refresh: 2, Sort: 1,
			Multi: true, IncludeAll: true, AllValue: ".+", Current: &grafana.Current{Text: "All", Value: "$__all"}}
	}
	// There is no choice of all jobs, because targets of every kind have the metrics up and
	// process_cpu_seconds_total.
	job := ask("job", "Job", `label_values(pinfold_cpus, job)`)
	job.IncludeAll, job.AllValue, job.Current = false, "", &grafana.Current{Text: "pinfold-agent", Value: "pinfold-agent"}
	const limited = `pinfold_container_cpu_limit_cores{job=~"$job", instance=~"$instance"`
	return []grafana.Variable{
		{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"},
		job,
		ask("instance", "Node", `label_values(pinfold_cpus{job=~"$job"}, instance)`),
		ask("namespace", "Namespace", `label_values(`+limited+`}, namespace)`),
		ask("pod", "Pod", `label_values(`+limited+`, namespace=~"$namespace"}, pod)`),
	}
}

// layOut arranges the panels from left to right, and in a new line if there is no space.
func layOut(rows []row) (all []grafana.Panel) {
	y := 0
	add := func(p grafana.Panel, at grafana.GridPos) {
		p.ID, p.GridPos = len(all)+1, at
		all = append(all, p)
	}
	for _, r := range rows {
		add(grafana.Panel{Type: grafana.RowType, Title: r.title}, grafana.GridPos{H: 1, W: grafana.Columns, Y: y})
		y++
		x, height := 0, 0
		for _, p := range r.panels {
			if x+p.width > grafana.Columns {
				x, y, height = 0, y+height, 0
			}
			add(p.Panel, grafana.GridPos{H: p.height, W: p.width, X: x, Y: y})
			x, height = x+p.width, max(height, p.height)
		}
		y += height
	}
	return all
}
