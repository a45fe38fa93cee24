package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"pinfold.dev/pinfold/tools/monitoring/grafana"
)

// chosen is the data source that the reader chooses.
const chosen = "${datasource}"

// everySelector must have these matchers, so that choosing a job or a node leaves nothing as it was.
var everySelector = []string{`job=~"$job"`, `instance=~"$instance"`}

var (
	variable = regexp.MustCompile(`\$\{?([a-z]+)\}?`) // Grafana's own begin with __
	brackets = regexp.MustCompile(`\[[^\]]*\]`)
	asked    = regexp.MustCompile(`^label_values\((.+), (\w+)\)$`)
	selector = regexp.MustCompile(`\{[^}]*\}`)
)

// Dashboard says what is wrong with a dashboard.
func Dashboard(d grafana.Dashboard, m Metrics) (problems []string) {
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if d.UID == "" || d.Title == "" || d.Description == "" || d.SchemaVersion != grafana.SchemaVersion {
		say("the dashboard needs a uid, a title, a description and schema version %d", grafana.SchemaVersion)
	}
	if d.Editable {
		say("the dashboard is editable: what is changed in Grafana is lost with the next import")
	}
	variables(d, m, say)
	ids := map[int]bool{}
	for i, p := range d.Panels {
		about := func(format string, args ...any) { say("panel %q: %s", p.Title, fmt.Sprintf(format, args...)) }
		if ids[p.ID] {
			about("another one has the ID %d", p.ID)
		}
		ids[p.ID] = true
		place(p.GridPos, d.Panels[:i], about)
		if p.Type != grafana.RowType {
			panel(p, m, about)
		} else if p.Title == "" {
			about("a row has no title")
		}
	}
	return problems
}

func place(at grafana.GridPos, before []grafana.Panel, say func(string, ...any)) {
	if at.W < 1 || at.H < 1 || at.X < 0 || at.Y < 0 || at.X+at.W > grafana.Columns {
		say("it is not inside the grid of %d columns: %+v", grafana.Columns, at)
	}
	for _, other := range before {
		o := other.GridPos
		if at.X < o.X+o.W && o.X < at.X+at.W && at.Y < o.Y+o.H && o.Y < at.Y+at.H {
			say("it covers panel %q", other.Title)
		}
	}
}

func panel(p grafana.Panel, m Metrics, say func(string, ...any)) {
	if p.Title == "" || p.Description == "" {
		say("it needs a title and a description")
	}
	if p.DataSource == nil || p.DataSource.UID != chosen {
		say("its data source is not %s", chosen)
	}
	if p.FieldConfig == nil || p.FieldConfig.Defaults.Unit == "" {
		say("it has no unit")
	}
	if len(p.Targets) == 0 {
		say("it has no query")
	}
	refs := map[string]bool{}
	for _, t := range p.Targets {
		if refs[t.RefID] {
			say("two queries are called %q", t.RefID)
		}
		refs[t.RefID] = true
		for _, problem := range m.panelQuery(t.Expr) {
			say("query %s: %s", t.RefID, problem)
		}
	}
}

// panelQuery checks a query in which Grafana's variables stand.
func (m Metrics) panelQuery(text string) (problems []string) {
	for _, r := range brackets.FindAllString(text, -1) {
		if r != "[$__rate_interval]" {
			problems = append(problems, fmt.Sprintf("the range %s does not follow the resolution: take [$__rate_interval]", r))
		}
	}
	plain := strings.ReplaceAll(text, "$__rate_interval", "5m")
	problems = append(problems, m.Query(plain)...)
	if len(problems) > 0 {
		return problems
	}
	selectors := selector.FindAllString(text, -1)
	for _, s := range selectors {
		for _, matcher := range everySelector {
			if !strings.Contains(s, matcher) {
				problems = append(problems, fmt.Sprintf("%s has no %s", s, matcher))
			}
		}
	}
	if n := countSelectors(plain); n != len(selectors) {
		problems = append(problems, fmt.Sprintf("%d of %d selectors have no matchers at all", n-len(selectors), n))
	}
	return problems
}

func variables(d grafana.Dashboard, m Metrics, say func(string, ...any)) {
	used := usedVariables(d)
	var known []string
	for _, v := range d.Templating.List {
		known = append(known, v.Name)
		if v.Label == "" {
			say("the variable %s has no label", v.Name)
		}
		if !slices.Contains(used, v.Name) {
			say("the variable %s is not used", v.Name)
		}
		if v.Type != "query" {
			continue
		}
		if v.DataSource == nil || v.DataSource.UID != chosen {
			say("the variable %s is not asked of %s", v.Name, chosen)
		}
		if v.Refresh != 2 {
			say("the variable %s is not asked anew when the time range changes (refresh 2)", v.Name)
		}
		if v.Name == "job" && v.IncludeAll {
			say("the variable job offers all: that takes in targets of every kind")
		} else if v.IncludeAll && v.AllValue != ".+" {
			say("all of the variable %s is %q, want .+: a list of them may become too long", v.Name, v.AllValue)
		}
		m.variableQuery(v, say)
	}
	for _, name := range used {
		if !slices.Contains(known, name) {
			say("there is no variable %s", name)
		}
	}
}

// variableQuery checks that the label that is asked for is one of the metric.
func (m Metrics) variableQuery(v grafana.Variable, say func(string, ...any)) {
	parts := asked.FindStringSubmatch(v.Query)
	if parts == nil {
		say("the variable %s is asked by %q, want label_values(METRIC, LABEL)", v.Name, v.Query)
		return
	}
	for _, problem := range m.Query(fmt.Sprintf("count by (%s) (%s)", parts[2], parts[1])) {
		say("the variable %s: %s", v.Name, problem)
	}
}

// usedVariables are the names of those that stand in queries and data sources.
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
