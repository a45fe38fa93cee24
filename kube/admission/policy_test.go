package admission

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/property"
)

// chartSuffix ends the names of the chart's policies and bindings, which differ between releases.
const chartSuffix = `{{include "pinfold.suffix" .}}`

// TestTemplates compares the chart's templates with the policies. In the templates, values of the
// chart take the place of the names of the lease and the account.
func TestTemplates(t *testing.T) {
	compareTemplate(t, "scheduler-admission.yaml", "and .Values.admissionPolicies.enabled (or .Values.scheduler.enabled .Values.agent.enabled)",
		"# A pod that has a node cannot start to ask for CPUs.\n"+
			"# A namespace with the label "+UnprotectedLabel+": \"true\" is exempt.\n"+
			manifest(t, named(Name, Policy(), Binding())...))
	compareTemplate(t, "agent-admission.yaml", "and .Values.admissionPolicies.enabled .Values.agent.enabled",
		"# Confines every agent to its own node: its token may not write about another one. The second policy warns of\n"+
			"# annotations and labels that no pod gets, because they are on a Deployment or Namespace.\n"+
			manifest(t, append(named(AgentName, AgentPolicy("{{.Release.Namespace}}", "{{.Values.agent.serviceAccount.name}}"), AgentBinding()),
				named(MisplacedName, Misplaced(), MisplacedBinding())...)...))
	raise, raiseBinding := Requests(), RequestsBinding()
	raise.Name, raiseBinding.Name, raiseBinding.Spec.PolicyName = RequestsName+chartSuffix, RequestsName+chartSuffix, RequestsName+chartSuffix
	compareTemplate(t, "requests.yaml", "and .Values.admissionPolicies.enabled .Values.admissionPolicies.raiseRequests (not (include \"pinfold.observes\" .))",
		"# Autoscalers, quotas and other schedulers count requests: raises those of containers that get exclusive CPUs to\n"+
			"# their limits, or, before Kubernetes 1.36, warns.\n"+
			"# A namespace with the label "+KeepRequestsLabel+": \"true\" is exempt.\n"+
			"{{- if .Capabilities.APIVersions.Has \"admissionregistration.k8s.io/v1/MutatingAdmissionPolicy\" }}\n"+
			manifest(t, raise, raiseBinding)+
			"{{- else }}\n"+manifest(t, named(RequestsName, RequestsWarning(), RequestsWarningBinding())...)+"{{- end }}\n")
	// Braces of the policies themselves would be taken for the template's.
	if text := manifest(t, Policy(), Binding(), AgentPolicy("ns", "name"), AgentBinding(), Misplaced(), MisplacedBinding(),
		Requests(), RequestsBinding(), RequestsWarning(), RequestsWarningBinding()); strings.Contains(text, "{{") {
		t.Errorf("a policy contains {{, which Helm would evaluate: write { { or change the template\n%s", text)
	}
}

// named gives a policy and its binding the name that they have in the chart.
func named(name string, policy *admissionv1.ValidatingAdmissionPolicy, binding *admissionv1.ValidatingAdmissionPolicyBinding) []any {
	name += chartSuffix
	policy.Name, binding.Name, binding.Spec.PolicyName = name, name, name
	return []any{policy, binding}
}

func compareTemplate(t *testing.T, name, condition, text string) {
	t.Helper()
	golden.Compare(t, "../../deploy/chart/templates/"+name, "{{- /* Written by TestTemplates of kube/admission: do not edit. */}}\n"+
		"{{- if "+condition+" }}\n"+text+"{{- end }}\n")
}

// manifest returns the objects in YAML.
func manifest(t *testing.T, objects ...any) string {
	t.Helper()
	var all []string
	for _, obj := range objects {
		text := must.Get(json.Marshal(obj))(t)
		var fields map[string]any
		must.Do(t, json.Unmarshal(text, &fields))
		delete(fields, "status") // written by the API server
		one := must.Get(yaml.Marshal(fields))(t)
		all = append(all, string(one))
	}
	return strings.Join(all, "---\n")
}

// judge evaluates the policy as the API server does.
type judge struct {
	variables, validations map[string]cel.Program
	order                  []string
}

func newJudge(t *testing.T) *judge {
	env := must.Get(cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType),
		cel.Variable("variables", cel.MapType(cel.StringType, cel.DynType))))(t)
	compile := func(expression string) cel.Program {
		ast, issues := env.Compile(expression)
		if issues.Err() != nil {
			t.Fatal(issues.Err())
		}
		return must.Get(env.Program(ast))(t)
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

// refuses returns the messages with which an update is rejected.
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
	return must.Get(runtime.DefaultUnstructuredConverter.ToUnstructured(pod))(t)
}

// drawPod returns a pod with any annotations, valid or not.
func drawPod(t *rapid.T, node string) *corev1.Pod {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app"}}}}
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
	return pod
}

// The policy and package api agree on which pods ask.
func TestPolicyAgreesWithBooks(t *testing.T) {
	j := newJudge(t)
	seen, all := map[string]int{}, 0
	check := func(rt *rapid.T) {
		node := rapid.SampledFrom([]string{"", "n", "n"}).Draw(rt, "node")
		before, after := drawPod(rt, node), drawPod(rt, node)
		want := map[string]bool{}
		asked, _ := api.Asks(before)
		if asks, err := api.Asks(after); node != "" && !asked && asks && err == nil {
			want[messageAsking] = true
		}
		all++
		for message := range want {
			seen[message]++
		}
		if diff := cmp.Diff(want, j.refuses(rt, before, after)); diff != "" {
			rt.Fatalf("before %v\nafter %v\nrefusals (-want +got):\n%s", before.Annotations, after.Annotations, diff)
		}
	}
	property.Check(t, check, func() string {
		for message := range j.validations {
			if n := seen[message]; n == 0 || n == all {
				return fmt.Sprintf("%d of %d cases are rejected with %q", n, all, message)
			}
		}
		return ""
	})
}
