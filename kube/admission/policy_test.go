package admission

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
)

// chartSuffix ends the names of the chart's policies and bindings, which differ between releases.
const chartSuffix = `{{include "pinfold.suffix" .}}`

// TestTemplates compares the chart's templates with the policies. In the templates, values of the
// chart take the place of the names of the lease and the account.
func TestTemplates(t *testing.T) {
	compareTemplate(t, "scheduler-admission.yaml", "and .Values.admissionPolicies.enabled .Values.scheduler.enabled",
		"{{- $namespace := include \"pinfold.leaseNamespace\" . }}\n"+
			"{{- $lease := include \"pinfold.leaseName\" . }}\n"+
			"# Protects the CPUs of pods: only the scheduler writes allocations, bound pods cannot start to ask for CPUs,\n"+
			"# and pods with allocated CPUs cannot change their number.\n"+
			"# A namespace with the label "+UnprotectedLabel+": \"true\" is exempt.\n"+
			"# The second policy rejects Bindings from a scheduler that has lost its lease. Helm keeps it: an API server on\n"+
			"# which no binding has leases as parameters does not see changes of leases any more, until it is restarted,\n"+
			"# and would reject the Bindings of later leaders (https://github.com/kubernetes/kubernetes/issues/130887).\n"+
			manifest(t, append(named(Name, Policy(), Binding()), chartFence("{{$namespace}}", "{{$lease}}")...)...))
	compareTemplate(t, "agent-admission.yaml", "and .Values.admissionPolicies.enabled .Values.agent.enabled",
		"# Confines every agent to its own node: its token may not write about another one. The second policy warns of\n"+
			"# annotations that no pod gets, because they are on a Deployment or Namespace.\n"+
			manifest(t, append(named(AgentName, AgentPolicy("{{.Release.Namespace}}", "{{.Values.agent.serviceAccount.name}}"), AgentBinding()),
				named(MisplacedName, Misplaced(), MisplacedBinding())...)...))
	const scheduler = "{{$scheduler}}"
	raise, raiseBinding := Requests(scheduler), RequestsBinding()
	raise.Name, raiseBinding.Name, raiseBinding.Spec.PolicyName = RequestsName+chartSuffix, RequestsName+chartSuffix, RequestsName+chartSuffix
	compareTemplate(t, "requests.yaml", "and .Values.admissionPolicies.enabled .Values.admissionPolicies.raiseRequests (or .Values.scheduler.enabled (include \"pinfold.agentsAllocate\" .))",
		"{{- $scheduler := ternary (include \"pinfold.schedulerName\" .) \"\" (empty (include \"pinfold.agentsAllocate\" .)) }}\n"+
			"# Autoscalers, quotas and agents that allocate count requests: raises those of containers that get exclusive\n"+
			"# CPUs to their limits, or, before Kubernetes 1.36, warns. Where agents allocate, pods may have any scheduler.\n"+
			"# A namespace with the label "+KeepRequestsLabel+": \"true\" is exempt.\n"+
			"{{- if .Capabilities.APIVersions.Has \"admissionregistration.k8s.io/v1/MutatingAdmissionPolicy\" }}\n"+
			manifest(t, raise, raiseBinding)+
			"{{- else }}\n"+manifest(t, named(RequestsName, RequestsWarning(scheduler), RequestsWarningBinding())...)+"{{- end }}\n")
	// Braces of the policies themselves would be taken for the template's.
	if text := manifest(t, Policy(), Binding(), Fence("ns", "lease"), FenceBinding("ns", "lease"), AgentPolicy("ns", "name"), AgentBinding(), Misplaced(), MisplacedBinding(),
		Requests("name"), RequestsBinding(), RequestsWarning("name"), RequestsWarningBinding()); strings.Contains(text, "{{") {
		t.Errorf("a policy contains {{, which Helm would evaluate: write { { or change the template\n%s", text)
	}
}

// named gives a policy and its binding the name that they have in the chart.
func named(name string, policy *admissionv1.ValidatingAdmissionPolicy, binding *admissionv1.ValidatingAdmissionPolicyBinding) []any {
	name += chartSuffix
	policy.Name, binding.Name, binding.Spec.PolicyName = name, name, name
	return []any{policy, binding}
}

// chartFence returns the fence under a name that does not depend on the lease, so that Helm changes
// it instead of creating another one. The annotation makes Helm keep it at the end of the release.
func chartFence(namespace, lease string) []any {
	policy, binding := Fence(namespace, lease), FenceBinding(namespace, lease)
	for _, object := range []metav1.Object{policy, binding} {
		object.SetAnnotations(map[string]string{"helm.sh/resource-policy": "keep"})
	}
	return named(FenceName("scheduler"), policy, binding)
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

// refuses returns the messages with which an update is rejected, or, if before is nil, a creation.
func (j *judge) refuses(t *rapid.T, before, after *corev1.Pod) map[string]bool {
	variables := map[string]any{}
	input := map[string]any{"oldObject": nil, "object": asFields(t, after), "variables": variables}
	if before != nil {
		input["oldObject"] = asFields(t, before)
	}
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

// drawPod returns a pod with any annotations, valid or not, with or without an allocation.
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
	draw(api.AllocationAnnotation, allocation, allocation, "{}")
	return pod
}

const allocation = `{"version":1,"node":"n","policy":"static","containers":[{"name":"app","cpus":"3","numaNodes":[0]}]}`

// resources returns everything that a resize may change: the resources of all containers and of the
// pod as a whole.
func resources(pod *corev1.Pod) []*corev1.ResourceRequirements {
	all := []*corev1.ResourceRequirements{&pod.Spec.Containers[0].Resources}
	for i := range pod.Spec.InitContainers {
		all = append(all, &pod.Spec.InitContainers[i].Resources)
	}
	if pod.Spec.Resources != nil {
		all = append(all, pod.Spec.Resources)
	}
	return all
}

// drawSizes gives two versions of a pod the same containers, with equal or different resources. It
// reports whether an amount of CPU differs.
func drawSizes(t *rapid.T, before, after *corev1.Pod) (resized bool) {
	prepared, whole := rapid.Bool().Draw(t, "init container"), rapid.Bool().Draw(t, "pod as a whole")
	for _, pod := range []*corev1.Pod{before, after} {
		if prepared {
			pod.Spec.InitContainers = []corev1.Container{{Name: "init"}}
		}
		if whole {
			pod.Spec.Resources = &corev1.ResourceRequirements{}
		}
	}
	amount := func(label string) corev1.ResourceList {
		list := corev1.ResourceList{"memory": resource.MustParse(rapid.SampledFrom([]string{"1Gi", "2Gi"}).Draw(t, label))}
		if n := rapid.SampledFrom([]string{"", "1", "1", "1", "1", "1000m", "1000m", "2"}).Draw(t, label); n != "" {
			list["cpu"] = resource.MustParse(n)
		}
		return list
	}
	differ := func(x, y corev1.ResourceList) bool {
		old, had := x["cpu"]
		now, has := y["cpu"]
		return had != has || old.Cmp(now) != 0
	}
	same, old, now := rapid.Bool().Draw(t, "same"), resources(before), resources(after)
	for i := range old {
		*old[i] = corev1.ResourceRequirements{Requests: amount("request"), Limits: amount("limit")}
		if *now[i] = *old[i]; !same {
			*now[i] = corev1.ResourceRequirements{Requests: amount("request"), Limits: amount("limit")}
		}
		resized = resized || differ(old[i].Requests, now[i].Requests) || differ(old[i].Limits, now[i].Limits)
	}
	return resized
}

// entitled reports whether a bound pod with these annotations would get the CPUs of an allocation
// that matches its limits, according to package api.
func entitled(pod *corev1.Pod) bool {
	pod = pod.DeepCopy()
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName, Containers: []corev1.Container{{Name: "app",
		Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}}
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, api.AllocationAnnotation, allocation)
	a, err := api.AllocationOf(pod)
	return a != nil && err == nil
}

// The policy and package api agree on which pods ask.
func TestPolicyAgreesWithBooks(t *testing.T) {
	j := newJudge(t)
	seen, all := map[string]int{}, 0
	rapid.Check(t, func(rt *rapid.T) {
		node := rapid.SampledFrom([]string{"", "n", "n"}).Draw(rt, "node")
		before, after := drawPod(rt, node), drawPod(rt, node)
		resized := drawSizes(rt, before, after)
		old, had := before.Annotations[api.AllocationAnnotation]
		now, has := after.Annotations[api.AllocationAnnotation]
		want := map[string]bool{}
		if had != has || old != now {
			want[messageAllocation] = true
		}
		if node != "" && !entitled(before) && entitled(after) {
			want[messageAsking] = true
		}
		if node != "" && had && entitled(before) && resized {
			want[messageResize] = true
		}
		all++
		for message := range want {
			seen[message]++
		}
		if diff := cmp.Diff(want, j.refuses(rt, before, after)); diff != "" {
			rt.Fatalf("before %v %v\nafter %v %v\nrefusals (-want +got):\n%s",
				before.Annotations, resources(before), after.Annotations, resources(after), diff)
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		made, want := drawPod(rt, rapid.SampledFrom([]string{"", "n"}).Draw(rt, "node")), map[string]bool{}
		if _, has := made.Annotations[api.AllocationAnnotation]; has {
			want[messageAllocation] = true
		}
		if diff := cmp.Diff(want, j.refuses(rt, nil, made)); diff != "" {
			rt.Fatalf("new pod %v\nrefusals (-want +got):\n%s", made.Annotations, diff)
		}
	})
	if all < 100 {
		return // such as with -short: some kind may be missing by chance
	}
	for message := range j.validations {
		if n := seen[message]; n == 0 || n == all {
			t.Errorf("%d of %d cases are rejected with %q, so the test proves nothing", n, all, message)
		}
	}
}
