package lint

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/tools/monitoring/grafana"
)

func exposed(t *testing.T) Metrics {
	t.Helper()
	file, err := os.Open("testdata/metrics.prom")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m, err := ParseMetrics(file)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestQueries reads blocks of a query and its problems.
func TestQueries(t *testing.T) {
	text, err := os.ReadFile("testdata/queries.txt")
	if err != nil {
		t.Fatal(err)
	}
	m := exposed(t)
	_, blocks, _ := strings.Cut(string(text), "\n") // after the comment
	for block := range strings.SplitSeq(strings.TrimSpace(blocks), "\n\n") {
		query, want, _ := strings.Cut(block, "\n")
		got := m.Query(query)
		if len(got) == 0 {
			got = []string{"nothing"}
		}
		if d := cmp.Diff(want, "  "+strings.Join(got, "\n  ")); d != "" {
			t.Errorf("%s:\n%s", query, d)
		}
	}
}

// whole returns a dashboard without problems.
func whole() grafana.Dashboard {
	source := &grafana.DataSource{Type: "prometheus", UID: chosen}
	ask := func(name, label string) grafana.Variable {
		return grafana.Variable{Name: name, Label: name, Type: "query", DataSource: source, Query: "label_values(cpus, " + label + ")",
			Refresh: 2, Multi: true, IncludeAll: name != "job", AllValue: ".+"}
	}
	panel := func(id, x int, expr string) grafana.Panel {
		return grafana.Panel{ID: id, Type: "timeseries", Title: expr, Description: "what", DataSource: source,
			GridPos: grafana.GridPos{H: 8, W: 12, X: x, Y: 1}, FieldConfig: &grafana.FieldConfig{Defaults: grafana.FieldDefaults{Unit: "none"}},
			Targets: []grafana.Target{{RefID: "A", Expr: expr}}}
	}
	const all = `{job=~"$job", instance=~"$instance"}`
	return grafana.Dashboard{UID: "x", Title: "x", Description: "x", SchemaVersion: grafana.SchemaVersion,
		Templating: grafana.Templating{List: []grafana.Variable{{Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus"},
			ask("job", "job"), ask("instance", "instance")}},
		Panels: []grafana.Panel{{ID: 1, Type: grafana.RowType, Title: "row", GridPos: grafana.GridPos{H: 1, W: 24}},
			panel(2, 0, "cpus"+all), panel(3, 12, "rate(throttled_total"+all+"[$__rate_interval])")},
	}
}

func TestDashboard(t *testing.T) {
	m := exposed(t)
	if problems := Dashboard(whole(), m); len(problems) > 0 {
		t.Errorf("problems of a valid dashboard: %q", problems)
	}
	for want, spoil := range map[string]func(d *grafana.Dashboard){
		"needs a uid":                          func(d *grafana.Dashboard) { d.UID = "" },
		"is editable":                          func(d *grafana.Dashboard) { d.Editable = true },
		"another panel has the ID 2":           func(d *grafana.Dashboard) { d.Panels[2].ID = 2 },
		"it covers panel":                      func(d *grafana.Dashboard) { d.Panels[2].GridPos.X = 11 },
		"not inside the grid":                  func(d *grafana.Dashboard) { d.Panels[2].GridPos.X = 13 },
		"the row has no title":                 func(d *grafana.Dashboard) { d.Panels[0].Title = "" },
		"needs a title and a description":      func(d *grafana.Dashboard) { d.Panels[1].Description = "" },
		"its data source is not":               func(d *grafana.Dashboard) { d.Panels[1].DataSource = &grafana.DataSource{UID: "prometheus"} },
		"it has no unit":                       func(d *grafana.Dashboard) { d.Panels[1].FieldConfig.Defaults.Unit = "" },
		"it has no query":                      func(d *grafana.Dashboard) { d.Panels[1].Targets = nil },
		`two queries are called "A"`:           func(d *grafana.Dashboard) { d.Panels[1].Targets = slices.Repeat(d.Panels[1].Targets, 2) },
		"does not follow the resolution":       expr(func(s string) string { return strings.ReplaceAll(s, "$__rate_interval", "5m") }),
		`has no instance=~"$instance"`:         expr(func(s string) string { return strings.ReplaceAll(s, `, instance=~"$instance"`, "") }),
		`[__name__="cpus"] has no job=~"$job"`: expr(func(string) string { return "cpus" }),
		"there is no variable pod":             expr(func(s string) string { return strings.ReplaceAll(s, "job=", `pod=~"$pod", job=`) }),
		"there is no metric":                   expr(func(s string) string { return strings.ReplaceAll(s, "throttled", "throttle") }),
		"the variable job is not used": func(d *grafana.Dashboard) {
			for i := range d.Panels {
				for j := range d.Panels[i].Targets {
					d.Panels[i].Targets[j].Expr = `cpus{instance=~"$instance"}`
				}
			}
		},
		"the variable job has no label":              variableOf(func(v *grafana.Variable) { v.Label = "" }),
		"the variable job does not query":            variableOf(func(v *grafana.Variable) { v.DataSource = nil }),
		"the variable job is not refreshed":          variableOf(func(v *grafana.Variable) { v.Refresh = 1 }),
		"the variable job offers all":                variableOf(func(v *grafana.Variable) { v.IncludeAll = true }),
		"allValue of the variable instance is":       func(d *grafana.Dashboard) { d.Templating.List[2].AllValue = "" },
		`the variable job: cpus has no label "node"`: variableOf(func(v *grafana.Variable) { v.Query = "label_values(cpus, node)" }),
		"want label_values(METRIC, LABEL)":           variableOf(func(v *grafana.Variable) { v.Query = "cpus" }),
	} {
		d := whole()
		spoil(&d)
		if problems := strings.Join(Dashboard(d, m), "\n"); !strings.Contains(problems, want) {
			t.Errorf("want %q in\n%s", want, problems)
		}
	}
}

func expr(change func(string) string) func(*grafana.Dashboard) {
	return func(d *grafana.Dashboard) {
		t := &d.Panels[2].Targets[0]
		t.Expr = change(t.Expr)
	}
}

func variableOf(change func(*grafana.Variable)) func(*grafana.Dashboard) {
	return func(d *grafana.Dashboard) { change(&d.Templating.List[1]) }
}

const wholeRules = `groups:
- name: x
  rules:
  - alert: TooMany
    expr: cpus > 3
    labels: {severity: warning}
    annotations: {summary: s, description: d, runbook_url: docs/book.md#toomany}
`

func TestRules(t *testing.T) {
	m, book := exposed(t), Runbook{"docs/book.md", "# Book\n\n### TooMany\n\nDo something.\n"}
	if problems := Rules([]byte(wholeRules), m, book); len(problems) > 0 {
		t.Errorf("problems of valid rules: %q", problems)
	}
	for _, c := range []struct{ old, new, want string }{
		{"cpus > 3", "cpu > 3", `there is no metric "cpu"`},
		{"cpus > 3", "cpus >", "parse error"},
		{"severity: warning", "severity: page", `its severity is "page"`},
		{"summary: s", `summary: ""`, "needs a summary"},
		{"#toomany", "#toofew", "want a section of docs/book.md"},
		{"expr:", "exp:", "field exp not found"},
	} {
		problems := strings.Join(Rules([]byte(strings.Replace(wholeRules, c.old, c.new, 1)), m, book), "\n")
		if !strings.Contains(problems, c.want) {
			t.Errorf("%s: want %q in\n%s", c.new, c.want, problems)
		}
	}
}

// TestStrict: unknown fields, which Grafana would ignore, are rejected.
func TestStrict(t *testing.T) {
	if _, err := grafana.Parse([]byte(`{"title": "x", "panel": []}`)); err == nil || !strings.Contains(err.Error(), "panel") {
		t.Errorf("an unknown field gives %v", err)
	}
	if _, err := grafana.Parse([]byte(`{} {}`)); err == nil {
		t.Error("no error for two dashboards in one file")
	}
}
