package chart

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/test/must"
)

// withRules are values by which the chart renders all rules, without braces around them.
const withRules = "{monitoring: {prometheusRule: {enabled: true, %s}}}"

// TestThresholds checks that each threshold changes one line of the rules, and that its default is
// what the rules have.
func TestThresholds(t *testing.T) {
	defaults := rules(t, "")
	for _, file := range []string{"rules.yaml", "scheduler-rules.yaml"} {
		text := string(must.Get(os.ReadFile(filepath.Join(chartDir, "files", file)))(t))
		if indented := "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  "); !strings.Contains(defaults, indented) {
			t.Errorf("the default rules differ from %s:\n%s", file, diffOf(indented, defaults))
		}
	}
	seen := 0
	for _, v := range values(t) {
		name, ok := strings.CutPrefix(v.path, "monitoring.prometheusRule.thresholds.")
		if !ok {
			continue
		}
		seen++
		changed := strings.Split(rules(t, "thresholds: {"+name+": 1}"), "\n")
		var lines []string
		for i, line := range strings.Split(defaults, "\n") {
			if changed[i] != line {
				lines = append(lines, changed[i])
			}
		}
		if len(lines) != 1 || !regexp.MustCompile(`[<>] 1$`).MatchString(lines[0]) {
			t.Errorf("%s changes %q", name, lines)
		}
	}
	if seen == 0 {
		t.Error("there are no thresholds")
	}
}

// rules renders all rules with values of monitoring.prometheusRule.
func rules(t *testing.T, values string) string {
	t.Helper()
	return render(t, fmt.Sprintf(withRules, values))
}

// TestAlertNames checks that the schema has all alerts, and that each can be changed.
func TestAlertNames(t *testing.T) {
	var schema struct {
		Properties struct {
			Monitoring struct {
				Properties struct {
					PrometheusRule struct {
						Properties struct {
							Alerts struct{ PropertyNames struct{ Enum []string } }
						}
					}
				}
			}
		}
	}
	must.Do(t, json.Unmarshal(must.Get(os.ReadFile(chartDir+"/values.schema.json"))(t), &schema))
	known := schema.Properties.Monitoring.Properties.PrometheusRule.Properties.Alerts.PropertyNames.Enum
	if names := alerts(t, rules(t, "")); !slices.Equal(slices.Sorted(slices.Values(names)), known) {
		t.Errorf("the schema has the alerts %q, want %q", known, names)
	}
	changed := rules(t, "alerts: {PinfoldNRIConflict: {for: 90m, severity: critical}}")
	if !regexp.MustCompile(`(?s)- alert: PinfoldNRIConflict\n[^-]*for: 90m\n +labels:\n +severity: critical\n`).MatchString(changed) {
		t.Errorf("the alert is not as it should be in\n%s", changed)
	}
	var off []string
	for _, name := range known[1:] {
		off = append(off, name+": {enabled: false}")
	}
	if got := alerts(t, rules(t, "alerts: {"+strings.Join(off, ", ")+"}")); !slices.Equal(got, known[:1]) {
		t.Errorf("alerts %q remain, want %s", got, known[0])
	}
}

// alerts returns the names of all alerts in a manifest.
func alerts(t *testing.T, manifest string) (names []string) {
	t.Helper()
	for _, object := range documents(t, manifest) {
		var rule struct {
			Spec struct {
				Groups []struct{ Rules []struct{ Alert string } }
			}
		}
		must.Do(t, yaml.Unmarshal(must.Get(object.MarshalJSON())(t), &rule))
		for _, group := range rule.Spec.Groups {
			for _, one := range group.Rules {
				if one.Alert != "" {
					names = append(names, one.Alert)
				}
			}
		}
	}
	return names
}
