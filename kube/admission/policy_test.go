package admission

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/kube/api"
)

const manifestPath = "../../deploy/manifests/scheduler-admission.yaml"

// The manifest is the policy and its binding, for kubectl apply.
func TestManifest(t *testing.T) {
	got := bytes.NewBufferString("# Keeps CPUs with the pods that were given them: allocations are not edited, and pods that\n" +
		"# have a node do not begin to ask. A namespace with the label " + UnprotectedLabel + ": \"true\" is exempt.\n")
	for i, obj := range []any{Policy(), Binding()} {
		text, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]any
		if err := json.Unmarshal(text, &fields); err != nil {
			t.Fatal(err)
		}
		delete(fields, "status") // the API server's
		manifest, err := yaml.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			got.WriteString("---\n")
		}
		got.Write(manifest)
	}
	if os.Getenv("PINFOLD_UPDATE") != "" {
		if err := os.WriteFile(manifestPath, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(manifestPath)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s (-want +got); PINFOLD_UPDATE=1 rewrites it:\n%s", manifestPath, diff)
	}
}

// judge evaluates the policy as the API server does.
type judge struct {
	variables, validations map[string]cel.Program
	order                  []string
}

func newJudge(t *testing.T) *judge {
	env, err := cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType),
		cel.Variable("variables", cel.MapType(cel.StringType, cel.DynType)))
	if err != nil {
		t.Fatal(err)
	}
	compile := func(expression string) cel.Program {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		program, err := env.Program(ast)
		if err != nil {
			t.Fatal(err)
		}
		return program
	}
	j := &judge{variables: map[string]cel.Program{}, validations: map[string]cel.Program{}}
	for _, v := range Policy().Spec.Variables {
		j.variables[v.Name] = compile(v.Expression)
		j.order = append(j.order, v.Name)
	}
	for _, v := range Policy().Spec.Validations {
		j.validations[v.Message] = compile(v.Expression)
	}
	return j
}

// refuses returns the messages with which an update is refused.
func (j *judge) refuses(t *rapid.T, before, after *corev1.Pod) map[string]bool {
	variables := map[string]any{}
	input := map[string]any{"oldObject": asFields(t, before), "object": asFields(t, after), "variables": variables}
	eval := func(program cel.Program) any {
		out, _, err := program.Eval(input)
		if err != nil {
			t.Fatal(err)
		}
		return out.Value()
	}
	for _, name := range j.order {
		variables[name] = eval(j.variables[name])
	}
	refusals := map[string]bool{}
	for message, program := range j.validations {
		if ok, _ := eval(program).(bool); !ok {
			refusals[message] = true
		}
	}
	return refusals
}

func asFields(t *rapid.T, pod *corev1.Pod) map[string]any {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

// drawPod is a pod with any of the words, right or wrong, and an allocation or none.
func drawPod(t *rapid.T, node string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app",
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}}}
	draw := func(key string, values ...string) {
		if value := rapid.SampledFrom(append(values, "")).Draw(t, key); value != "" {
			metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
		}
	}
	for _, key := range api.CPUSetSchedulerKeys() {
		draw(key, "true", "true", "true", "false", "yes")
	}
	for _, key := range api.CPUPolicyKeys() {
		draw(key, "static", "none", "none", "dynamic")
	}
	draw(api.AllocationAnnotation, allocation, allocation, "{}")
	return pod
}

const allocation = `{"version":1,"node":"n","policy":"static","containers":[{"name":"app","cpus":"3","numaNodes":[0]}]}`

// entitled asks package api whether a bound pod would have the CPUs of an allocation.
func entitled(pod *corev1.Pod) bool {
	pod = pod.DeepCopy()
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, api.AllocationAnnotation, allocation)
	a, err := api.AllocationOf(pod)
	return a != nil && err == nil
}

// The policy and package api mean the same by asking.
func TestPolicyMeansWhatTheBooksCount(t *testing.T) {
	j := newJudge(t)
	seen := map[bool]int{}
	rapid.Check(t, func(rt *rapid.T) {
		node := rapid.SampledFrom([]string{"", "n", "n"}).Draw(rt, "node")
		before, after := drawPod(rt, node), drawPod(rt, node)
		old, had := before.Annotations[api.AllocationAnnotation]
		now, has := after.Annotations[api.AllocationAnnotation]
		want := map[string]bool{}
		if had != has || old != now {
			want[messageAllocation] = true
		}
		if node != "" && !entitled(before) && entitled(after) {
			want[messageAsking] = true
		}
		seen[want[messageAsking]]++
		if diff := cmp.Diff(want, j.refuses(rt, before, after)); diff != "" {
			rt.Fatalf("before %v\nafter %v\nrefusals (-want +got):\n%s", before.Annotations, after.Annotations, diff)
		}
	})
	if seen[true] == 0 || seen[false] == 0 {
		t.Errorf("a bound pod begins to ask in %d cases and not in %d: that is no test", seen[true], seen[false])
	}
}
