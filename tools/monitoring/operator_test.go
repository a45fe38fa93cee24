package monitoring

import (
	"os/exec"
	"strings"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"sigs.k8s.io/yaml"
)

// TestOperatorObjects decodes what the chart creates for the Prometheus operator into the operator's own
// types, which refuse fields that it does not know.
func TestOperatorObjects(t *testing.T) {
	for _, values := range []string{
		"serviceMonitor.enabled=true,monitoring.serviceMonitor.scrapeNativeHistograms=true,agent.metrics.tlsSecret=certificate",
		"podMonitor.enabled=true,monitoring.serviceMonitor.scrapeNativeHistograms=true,monitoring.serviceMonitor.authorization.credentials.name=prometheus,monitoring.serviceMonitor.authorization.credentials.key=token",
	} {
		out, err := exec.CommandContext(t.Context(), "../../bin/helm4", "template", "pinfold", "../../deploy/chart",
			"--set", "image.registry=registry.example.com/pinfold,monitoring.prometheusRule.enabled=true,monitoring."+values).Output()
		if err != nil {
			t.Fatal(err)
		}
		decoded := map[string]int{}
		for document := range strings.SplitSeq(string(out), "\n---\n") {
			var of struct{ Kind string }
			if err := yaml.Unmarshal([]byte(document), &of); err != nil {
				t.Fatal(err)
			}
			object := map[string]any{
				monitoringv1.ServiceMonitorsKind: &monitoringv1.ServiceMonitor{}, monitoringv1.PodMonitorsKind: &monitoringv1.PodMonitor{},
				monitoringv1.PrometheusRuleKind: &monitoringv1.PrometheusRule{},
			}[of.Kind]
			if object == nil {
				continue
			}
			if err := yaml.UnmarshalStrict([]byte(document), object); err != nil {
				t.Errorf("%s: %v\n%s", of.Kind, err, document)
			}
			decoded[of.Kind]++
		}
		if monitors := decoded[monitoringv1.ServiceMonitorsKind] + decoded[monitoringv1.PodMonitorsKind]; monitors != 2 || decoded[monitoringv1.PrometheusRuleKind] != 2 {
			t.Errorf("%s: %v", values, decoded)
		}
	}
}
