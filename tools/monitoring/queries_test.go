// Package monitoring tests the dashboard and the alerts of deploy/chart/files.
package monitoring

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
)

const (
	files   = "../../deploy/chart/files/"
	metrics = "../../agent/testdata/metrics.prom"
)

// TestDashboard runs each query of the dashboard in Prometheus' engine, on an hour of metrics of
// two agents. A query that does not parse fails, and one whose metrics or labels do not exist finds
// nothing.
func TestDashboard(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ RefID, Expr string }
		}
	}
	text, err := os.ReadFile(files + "dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &dashboard)
	}
	if err != nil {
		t.Fatal(err)
	}
	storage := promqltest.LoadedStorage(t, hour(t, metrics))
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000)
	all := strings.NewReplacer("$__rate_interval", "5m", "$job", "pinfold-agent", "$instance", ".+", "$namespace", ".+", "$pod", ".+")
	queries := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries++
			query, err := engine.NewInstantQuery(t.Context(), storage, nil, all.Replace(target.Expr), time.Unix(3600, 0))
			if err != nil {
				t.Errorf("panel %q, query %s: %v", p.Title, target.RefID, err)
				continue
			}
			result := query.Exec(t.Context())
			if vector, err := result.Vector(); err != nil || len(vector) == 0 {
				t.Errorf("panel %q, query %s: %d values, %v", p.Title, target.RefID, len(vector), err)
			}
			query.Close()
		}
	}
	if queries == 0 {
		t.Error("the dashboard has no queries")
	}
}

// TestAlerts checks that alerts name only metrics that exist, and that each has a severity, texts,
// and a section in the manual. promtool checks everything else.
func TestAlerts(t *testing.T) {
	groups, errs := rulefmt.ParseFile(files+"rules.yaml", false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	manual, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	script := hour(t, metrics)
	for _, group := range groups.Groups {
		for _, rule := range group.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr)
			if err != nil {
				t.Fatal(err)
			}
			for _, selector := range parser.ExtractSelectors(expr) {
				for _, matcher := range selector {
					if matcher.Name == model.MetricNameLabel && !strings.Contains(script, "\n  "+matcher.Value+"{") {
						t.Errorf("alert %s: there is no metric %s", rule.Alert, matcher.Value)
					}
				}
			}
			if !slices.Contains([]string{"critical", "warning", "info"}, rule.Labels["severity"]) {
				t.Errorf("alert %s has the severity %q", rule.Alert, rule.Labels["severity"])
			}
			if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("alert %s needs a summary and a description", rule.Alert)
			}
			if link := "docs/monitoring.md#" + strings.ToLower(rule.Alert); rule.Annotations["runbook_url"] != link {
				t.Errorf("alert %s has the manual %q, want %q", rule.Alert, rule.Annotations["runbook_url"], link)
			}
			if !strings.Contains(string(manual), "\n### "+rule.Alert+"\n") {
				t.Errorf("docs/monitoring.md has no section %s", rule.Alert)
			}
		}
	}
}

// hour returns a script that loads an hour of metrics. Gauges are constant. Counters grow in each
// minute by their value plus one, so that all grow.
func hour(t *testing.T, file string) string {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	script := "load 1m\n"
	add := func(name, labels, values string) {
		for _, node := range []string{"n1", "n2"} {
			script += fmt.Sprintf("  %s{job=\"pinfold-agent\",instance=%q%s} %s\n", name, node, labels, values)
		}
	}
	add("up", "", "1x60")
	add("process_cpu_seconds_total", "", "0+0.5x60")
	for _, others := range []string{"leader_election_master_status", "pinfold_scheduler_waiting_pods", // of the scheduler
		"kube_daemonset_status_desired_number_scheduled", "kube_daemonset_status_number_ready"} { // of kube-state-metrics
		add(others, "", "1x60")
	}
	kind := ""
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "# TYPE ") {
			kind = line[strings.LastIndex(line, " ")+1:]
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		space := strings.LastIndex(line, " ")
		name, labels, _ := strings.Cut(strings.TrimSuffix(line[:space], "}"), "{")
		value, err := strconv.ParseFloat(line[space+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		if labels != "" {
			labels = "," + labels
		}
		if kind == "gauge" {
			add(name, labels, fmt.Sprintf("%gx60", value))
		} else {
			add(name, labels, fmt.Sprintf("0+%gx60", value+1))
		}
	}
	return script
}
