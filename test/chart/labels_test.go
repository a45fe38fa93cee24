package chart

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/must"
)

// TestLabels checks that all objects have the labels of the release, and pods those that do not
// change with the chart. Selectors, which cannot be changed, have none of them.
func TestLabels(t *testing.T) {
	constant := map[string]string{"app.kubernetes.io/instance": release, "app.kubernetes.io/part-of": "pinfold", "owner": "platform"}
	all := maps.Clone(constant)
	maps.Copy(all, map[string]string{"app.kubernetes.io/managed-by": "Helm", "app.kubernetes.io/version": "0.1.0", "helm.sh/chart": "pinfold-0.1.0"})
	for name, values := range allValues(t) {
		for _, object := range documents(t, render(t, values+"\ncommonLabels: {owner: platform, app.kubernetes.io/name: other}\n")) {
			what := name + ": " + object.GetKind() + " " + object.GetName()
			hasLabels(t, what, object.GetLabels(), all)
			if template := must.Get(nested(object, "spec", "template", "metadata", "labels"))(t); template != nil {
				hasLabels(t, what+"'s pods", template, constant)
				if version := template["helm.sh/chart"] + template["app.kubernetes.io/version"]; version != "" {
					t.Errorf("%s's pods have the version %s", what, version)
				}
			}
			selector := must.Get(nested(object, "spec", "selector", "matchLabels"))(t)
			if others := slices.DeleteFunc(slices.Collect(maps.Keys(selector)), func(key string) bool {
				return key == "app.kubernetes.io/name" || key == api.PoolLabel
			}); len(others) > 0 {
				t.Errorf("%s selects by %q", what, others)
			}
		}
	}
}

// nested returns the labels in a field of an object, which may be missing.
func nested(object *unstructured.Unstructured, fields ...string) (map[string]string, error) {
	labels, _, err := unstructured.NestedStringMap(object.Object, fields...)
	return labels, err
}

// hasLabels checks labels and the name of the component.
func hasLabels(t *testing.T, what string, got, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if got[key] != value {
			t.Errorf("%s has the label %s=%q, want %q", what, key, got[key], value)
		}
	}
	if component := got["app.kubernetes.io/name"]; !strings.HasPrefix(component, "pinfold") {
		t.Errorf("%s is of component %q", what, component)
	}
}

// TestNameOverride checks that only names in the release's namespace change, and that pods and the
// Job refer to them.
func TestNameOverride(t *testing.T) {
	const all = `
monitoring: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}, dashboard: {enabled: true}}
ceilings: {default: {exclusiveCPUs: {perPod: 8}}}
resourceQuota: {create: true}
scheduler: {networkPolicy: {enabled: true}}
agent: {pools: {canary: {}}}
openshift: true
`
	before, after := render(t, all), render(t, all+"nameOverride: cpu-binding")
	if got := strings.ReplaceAll(after, "cpu-binding", "pinfold"); got != before {
		t.Errorf("more than names has changed:\n%s", diffOf(before, got))
	}
	kinds, names := map[string]bool{}, map[string]bool{}
	for _, object := range documents(t, after) {
		if strings.HasPrefix(object.GetName(), "cpu-binding") {
			kinds[object.GetKind()], names[object.GetName()] = true, true
		}
	}
	want := []string{"ConfigMap", "DaemonSet", "Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "PrometheusRule", "ResourceQuota",
		"Service", "ServiceAccount", "ServiceMonitor"}
	if got := slices.Sorted(maps.Keys(kinds)); !slices.Equal(got, want) {
		t.Errorf("objects of the kinds %q have other names, want %q", got, want)
	}
	for _, reference := range regexp.MustCompile(`(?:configMap: \{name: |--daemonset=`+namespace+`/|serviceAccountName: cpu)([-a-z]+)`).FindAllStringSubmatch(after, -1) {
		if name := reference[1]; !names[name] && !names["cpu"+name] {
			t.Errorf("%s does not exist", name)
		}
	}
}
