package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"pinfold.dev/pinfold/tools/monitoring/grafana"
)

// chosen is the data source that the user chooses.
const chosen = "${datasource}"

// everySelector are matchers that each selector must have, so that choosing a job or a node affects
// all panels.
var everySelector = []string{`job=~"$job"`, `instance=~"$instance"`}

var (
	variable = regexp.MustCompile(`\$\{?([a-z]+)\}?`) // Grafana's own begin with __
	brackets = regexp.MustCompile(`\[[^\]]*\]`)
	asked    = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
)

// Dashboard returns the problems of a dashboard.
func Dashboard(d grafana.Dashboard, m Metrics) (problems []string) {
	report := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if d.UID == "" || d.Title == "" || d.Description == "" || d.SchemaVersion != grafana.SchemaVersion {
		report("the dashboard needs a uid, a title, a description and schema version %d", grafana.SchemaVersion)
	}
	if d.Editable {
		report("the dashboard is editable: changes in Grafana would be lost with the next import")
	}
	variables(d, m, report)
	ids := map[int]bool{}
	for i, p := range d.Panels {
		about := func(format string, args ...any) { report("panel %q: %s", p.Title, fmt.Sprintf(format, args...)) }
		if ids[p.ID] {
			about("another panel has the ID %d", p.ID)
		}
		ids[p.ID] = true
		place(p.GridPos, d.Panels[:i], about)
		if p.Type != grafana.RowType {
			panel(p, m, about)
		} else if p.Title == "" {
			about("the row has no title")
		}
	}
	return problems
}

func place(at grafana.GridPos, before []grafana.Panel, report func(string, ...any)) {
	if at.W < 1 || at.H < 1 || at.X < 0 || at.Y < 0 || at.X+at.W > grafana.Columns {
		report("it is not inside the grid of %d columns: %+v", grafana.Columns, at)
	}
	for _, other := range before {
		o := other.GridPos
		if at.X < o.X+o.W && o.X < at.X+at.W && at.Y < o.Y+o.H && o.Y < at.Y+at.H {
			report("it covers panel %q", other.Title)
		}
	}
}

func panel(p grafana.Panel, m Metrics, report func(string, ...any)) {
	if p.Title == "" || p.Description == "" {
		report("it needs a title and a description")
	}
	if p.DataSource == nil || p.DataSource.UID != chosen {
		report("its data source is not %s", chosen)
	}
	if p.FieldConfig == nil || p.FieldConfig.Defaults.Unit == "" {
		report("it has no unit")
	}
	if len(p.Targets) == 0 {
		report("it has no query")
	}
	refs := map[string]bool{}
	for _, t := range p.Targets {
		if refs[t.RefID] {
			report("two queries are called %q", t.RefID)
		}
		refs[t.RefID] = true
		for _, problem := range m.panelQuery(t.Expr) {
			report("query %s: %s", t.RefID, problem)
		}
	}
}

// panelQuery checks a query that contains Grafana's variables.
func (m Metrics) panelQuery(text string) (problems []string) {
	for _, r := range brackets.FindAllString(text, -1) {
		if r != "[$__rate_interval]" {
			problems = append(problems, fmt.Sprintf("the range %s does not follow the resolution: use [$__rate_interval]", r))
		}
	}
	plain := strings.ReplaceAll(text, "$__rate_interval", "5m")
	problems = append(problems, m.Query(plain)...)
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(plain)
	if err != nil || len(problems) > 0 {
		return problems
	}
	for _, matchers := range parser.ExtractSelectors(expr) {
		for _, want := range everySelector {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return m.String() == want }) {
				problems = append(problems, fmt.Sprintf("the selector %v has no %s", matchers, want))
			}
		}
	}
	return problems
}

func variables(d grafana.Dashboard, m Metrics, report func(string, ...any)) {
	used := usedVariables(d)
	var known []string
	for _, v := range d.Templating.List {
		known = append(known, v.Name)
		if v.Label == "" {
			report("the variable %s has no label", v.Name)
		}
		if !slices.Contains(used, v.Name) {
			report("the variable %s is not used", v.Name)
		}
		if v.Type != "query" {
			continue
		}
		if v.DataSource == nil || v.DataSource.UID != chosen {
			report("the variable %s does not query %s", v.Name, chosen)
		}
		if v.Refresh != 2 {
			report("the variable %s is not refreshed when the time range changes (refresh 2)", v.Name)
		}
		if v.Name == "job" && v.IncludeAll {
			report("the variable job offers all jobs: that includes targets of every kind")
		} else if v.IncludeAll && v.AllValue != ".+" {
			report("allValue of the variable %s is %q, want .+: a list of all values may become too long", v.Name, v.AllValue)
		}
		m.variableQuery(v, report)
	}
	for _, name := range used {
		if !slices.Contains(known, name) {
			report("there is no variable %s", name)
		}
	}
}

// variableQuery checks that the metric has the label whose values are queried.
func (m Metrics) variableQuery(v grafana.Variable, report func(string, ...any)) {
	parts := asked.FindStringSubmatch(v.Query)
	if parts == nil {
		report("the variable %s has the query %q, want label_values(METRIC, LABEL)", v.Name, v.Query)
		return
	}
	for _, problem := range m.Query(fmt.Sprintf("count by (%s) (%s)", parts[2], parts[1])) {
		report("the variable %s: %s", v.Name, problem)
	}
}

// usedVariables returns the names of the variables in queries and data sources.
func usedVariables(d grafana.Dashboard) (names []string) {
	find := func(text string) {
		for _, match := range variable.FindAllStringSubmatch(text, -1) {
			names = append(names, match[1])
		}
	}
	source := func(s *grafana.DataSource) {
		if s != nil {
			find(s.UID)
		}
	}
	for _, v := range d.Templating.List {
		find(v.Query)
		source(v.DataSource)
	}
	for _, p := range d.Panels {
		source(p.DataSource)
		for _, t := range p.Targets {
			find(t.Expr)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
