package dashboard

import (
	"strings"

	"pinfold.dev/pinfold/tools/monitoring/grafana"
)

// Units of Grafana.
const (
	count   = "none"
	cores   = "short" // CPUs, or CPU seconds in a second
	percent = "percentunit"
	seconds = "s"
	perSec  = "ops"
)

const (
	nodes = `job=~"$job", instance=~"$instance"`
	pods  = nodes + `, namespace=~"$namespace", pod=~"$pod"`
)

var source = &grafana.DataSource{Type: "prometheus", UID: "${datasource}"}

// query is one or several lines of a panel.
type query struct{ legend, expr string }

func targets(format string, queries []query) (all []grafana.Target) {
	matchers := strings.NewReplacer("@node", nodes, "@pods", pods)
	for i, q := range queries {
		all = append(all, grafana.Target{RefID: string(rune('A' + i)), Expr: matchers.Replace(q.expr), LegendFormat: q.legend,
			Format: format, Instant: format == "table"})
	}
	return all
}

func panel(kind, title, description, unit string, queries []query) grafana.Panel {
	return grafana.Panel{Type: kind, Title: title, Description: description, DataSource: source, Targets: targets("", queries),
		FieldConfig: &grafana.FieldConfig{Defaults: grafana.FieldDefaults{Unit: unit}, Overrides: []grafana.Override{}}}
}

// lines returns a panel with lines over time.
func lines(title, description, unit string, queries ...query) grafana.Panel {
	p := panel("timeseries", title, description, unit, queries)
	p.FieldConfig.Defaults.Min = new(0.0)
	p.FieldConfig.Defaults.Custom = map[string]any{"fillOpacity": 5, "showPoints": "never"}
	p.Options = map[string]any{
		"legend":  map[string]any{"displayMode": "list", "placement": "bottom", "showLegend": true},
		"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
	}
	return p
}

// areas returns a panel with stacked areas over time.
func areas(title, description, unit string, queries ...query) grafana.Panel {
	p := lines(title, description, unit, queries...)
	p.FieldConfig.Defaults.Custom = map[string]any{"fillOpacity": 30, "showPoints": "never", "stacking": map[string]any{"mode": "normal"}}
	return p
}

// number returns a panel with the current number of something that should be 0.
func number(title, description, expr string) grafana.Panel {
	p := panel("stat", title, description, count, []query{{"", expr}})
	p.FieldConfig.Defaults.Thresholds = &grafana.Thresholds{Mode: "absolute",
		Steps: []grafana.Step{{Color: "green"}, {Color: "red", Value: new(1.0)}}}
	p.Options = map[string]any{"colorMode": "value", "graphMode": "area", "reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}}}
	return p
}

// heatmap returns a panel with a histogram over time.
func heatmap(title, description, unit, expr string) grafana.Panel {
	p := panel("heatmap", title, description, unit, nil)
	p.Targets = targets("heatmap", []query{{"{{le}}", expr}})
	p.Options = map[string]any{
		"calculate": false, "cellGap": 1,
		"color":   map[string]any{"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5},
		"yAxis":   map[string]any{"unit": unit},
		"tooltip": map[string]any{"mode": "single", "yHistogram": true},
	}
	return p
}

// column is a column of a table.
type column struct{ title, unit, expr string }

// table returns a panel with the current values, one row per container.
func table(title, description string, columns ...column) grafana.Panel {
	p := panel("table", title, description, count, nil)
	names := map[string]any{"namespace": "Namespace", "pod": "Pod", "container": "Container", "instance": "Node"}
	for i, c := range columns {
		q := targets("table", []query{{"", c.expr}})[0]
		q.RefID = string(rune('A' + i))
		p.Targets = append(p.Targets, q)
		names["Value #"+q.RefID] = c.title
		p.FieldConfig.Overrides = append(p.FieldConfig.Overrides, grafana.Override{
			Matcher: grafana.Matcher{ID: "byName", Options: c.title}, Properties: []grafana.Property{{ID: "unit", Value: c.unit}}})
	}
	p.Transformations = []grafana.Transformation{{ID: "merge", Options: map[string]any{}},
		{ID: "organize", Options: map[string]any{"excludeByName": map[string]any{"Time": true}, "renameByName": names}}}
	p.Options = map[string]any{"sortBy": []any{map[string]any{"displayName": columns[0].title, "desc": true}}}
	return p
}
