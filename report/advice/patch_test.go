package advice

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/advice"
	"pinfold.dev/pinfold/test/must"
)

// TestPatchIsMerged merges a patch into a pod template as kubectl does.
func TestPatchIsMerged(t *testing.T) {
	const before = `
metadata: {annotations: {other: "1"}}
spec:
  containers:
  - {name: side, image: s, resources: {limits: {cpu: 2}}}
  - {name: app, image: a, resources: {requests: {cpu: 100m}, limits: {cpu: 2, memory: 1Gi}}}
`
	const want = `
metadata: {annotations: {other: "1", pinfold.dev/cpu-burst: '{"policy":"burst","burstPercent":100}'}}
spec:
  containers:
  - {name: side, image: s, resources: {limits: {cpu: 2}}}
  - {name: app, image: a, resources: {requests: {cpu: 100m}, limits: {cpu: 590m, memory: 1Gi}}}
`
	c := advice.Container{Name: "shop/web-0/app", LimitWithBurst: advice.Limit{
		Finding: advice.Finding{Enough: true, Reason: "say \"'#: - {[&*!|>%@`"}, LimitCPUs: .59, BurstPercent: 100}}
	r := &Report{Goal: advice.DefaultGoal(), Containers: []Container{{Container: c}}}
	var patch strings.Builder
	if _, _, err := r.Patches(&patch); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Spec struct{ Template map[string]any }
	}
	if err := yaml.UnmarshalStrict([]byte(patch.String()), &got); err != nil {
		t.Fatalf("%v in\n%s", err, patch.String())
	}
	var original, wanted map[string]any
	for text, to := range map[string]*map[string]any{before: &original, want: &wanted} {
		must.Do(t, yaml.Unmarshal([]byte(text), to))
	}
	merged := must.Get(strategicpatch.StrategicMergeMapPatch(original, got.Spec.Template, corev1.PodTemplateSpec{}))(t)
	// The order of merged lists does not matter.
	if diff := cmp.Diff(byName(wanted), byName(merged)); diff != "" {
		t.Errorf("the template (-want +got):\n%s", diff)
	}
}

// byName returns a template with its containers in a map.
func byName(template map[string]any) map[string]any {
	spec := template["spec"].(map[string]any)
	named := map[string]any{}
	for _, c := range spec["containers"].([]any) {
		named[c.(map[string]any)["name"].(string)] = c
	}
	return map[string]any{"metadata": template["metadata"], "containers": named}
}

// TestPolicies checks the annotation's value for bursts of all sizes.
func TestPolicies(t *testing.T) {
	for burst, want := range map[float64]string{
		0: `{"policy":"none"}`, .001: `{"policy":"burst","burstPercent":1}`, .5: `{"policy":"burst","burstPercent":50}`, 1: `{"policy":"burst","burstPercent":100}`,
	} {
		if got := (&pod{Burst: burst}).Policy(); got != want {
			t.Errorf("a burst of %v is %s, want %s", burst, got, want)
		}
	}
}
