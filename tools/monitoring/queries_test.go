// Package monitoring tests the dashboard and the alerts of deploy/chart/files.
package monitoring

import (
	"bufio"
	"cmp"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
)

const (
	files            = "../../deploy/chart/files/"
	metrics          = "../../agent/testdata/metrics.prom"
	schedulerMetrics = "../../kube/scheduler/testdata/metrics.prom"
)

// others are the metrics of kube-scheduler and kube-state-metrics that alerts use.
var others = []string{"leader_election_master_status", "kube_daemonset_status_desired_number_scheduled", "kube_daemonset_status_number_ready", "kube_node_status_condition", "kube_pod_info"}

// TestAlerts checks that alerts name only metrics that exist, and that each has a severity, texts,
// and a section in the manual. promtool checks everything else.
func TestAlerts(t *testing.T) {
	manual, err := os.ReadFile("../../docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	var groups []rulefmt.RuleGroup
	for _, file := range []string{"rules.yaml", "scheduler-rules.yaml"} {
		of, errs := rulefmt.ParseFile(files+file, false, model.LegacyValidation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		groups = append(groups, of.Groups...)
	}
	known := others
	script := hour(t, "pinfold-agent", metrics) + hour(t, "pinfold-scheduler", schedulerMetrics)
	for _, group := range groups {
		for _, rule := range group.Rules {
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr)
			if err != nil {
				t.Fatal(err)
			}
			for _, selector := range parser.ExtractSelectors(expr) {
				for _, matcher := range selector {
					if matcher.Name == model.MetricNameLabel && !slices.Contains(known, matcher.Value) && !strings.Contains(script, "\n  "+matcher.Value+"{") {
						t.Errorf("%s: there is no metric %s", cmp.Or(rule.Alert, rule.Record), matcher.Value)
					}
				}
			}
			if rule.Record != "" {
				known = append(known, rule.Record)
				continue
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

// hour returns a script that loads an hour of metrics of a job, with two instances. Gauges are constant. Counters grow in each
// minute by their value plus one, so that all grow. A histogram whose only bucket has all values is a
// native one, whose buckets text does not show.
func hour(t *testing.T, job, file string) string {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	script := "load 1m\n"
	add := func(name, labels, values string) {
		for _, instance := range []string{"n1", "n2"} {
			script += fmt.Sprintf("  %s{job=%q,instance=%q%s} %s\n", name, job, instance, labels, values)
		}
	}
	add("up", "", "1x60")
	add("process_cpu_seconds_total", "", "0+0.5x60")
	kind, before := "", ""
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		line := lines.Text()
		if strings.HasPrefix(line, "# TYPE ") {
			kind = line[strings.LastIndex(line, " ")+1:]
		}
		if strings.HasPrefix(line, "#") {
			before = line
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
		if native, ok := strings.CutSuffix(name, "_bucket"); ok && strings.HasPrefix(before, "#") && strings.HasSuffix(labels, `le="+Inf"`) {
			const three = "{{schema:3 sum:4 count:3 buckets:[1 2]}}"
			add(native, strings.TrimSuffix(labels, `,le="+Inf"`), three+"+"+three+"x60")
		}
		before = line
		if kind == "gauge" {
			add(name, labels, fmt.Sprintf("%gx60", value))
		} else {
			add(name, labels, fmt.Sprintf("0+%gx60", value+1))
		}
	}
	return script
}
