package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/golden"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/property"
)

// server evaluates [Requests] and [RequestsWarning] with the code of the API server, in the oldest
// version that has them.
type server struct {
	mutating, validating *plugincel.CompositedCompiler
	matcher              matchconditions.Matcher
	patcher              patch.Patcher
	validator            validating.Validator
}

var (
	declared = plugincel.OptionalVariableDeclarations{HasAuthorizer: true}
	stored   = environment.StoredExpressions
)

func newServer(t testing.TB) *server {
	t.Helper()
	policy, warning := Requests(), RequestsWarning()
	s := &server{mutating: compiler(t, 36, policy.Spec.Variables), validating: compiler(t, 34, warning.Spec.Variables)}
	s.matcher = matcher(s.mutating, policy.Spec.MatchConditions)
	patching := plugincel.OptionalVariableDeclarations{HasAuthorizer: true, HasPatchTypes: true}
	s.patcher = patch.NewJSONPatcher(s.mutating.CompileMutatingEvaluator(
		&patch.JSONPatchCondition{Expression: policy.Spec.Mutations[0].JSONPatch.Expression}, patching, stored))
	condition, message := warning.Spec.Validations[0].Expression, warning.Spec.Validations[0].MessageExpression
	s.validator = validating.NewValidator(
		s.validating.CompileCondition([]plugincel.ExpressionAccessor{&validating.ValidationCondition{Expression: condition}}, declared, stored),
		matcher(s.validating, warning.Spec.MatchConditions), s.validating.CompileCondition(nil, declared, stored),
		s.validating.CompileCondition([]plugincel.ExpressionAccessor{&validating.MessageExpressionCondition{MessageExpression: message}},
			plugincel.OptionalVariableDeclarations{}, stored), new(admissionv1.Fail), nil)
	return s
}

func compiler(t testing.TB, minor uint, variables []admissionv1.Variable) *plugincel.CompositedCompiler {
	t.Helper()
	c, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(version.MajorMinor(1, minor)))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range variables {
		if result := c.CompileAndStoreVariable(&validating.Variable{Name: v.Name, Expression: v.Expression}, declared, stored); result.Error != nil {
			t.Fatal(result.Error)
		}
	}
	return c
}

func matcher(c *plugincel.CompositedCompiler, conditions []admissionv1.MatchCondition) matchconditions.Matcher {
	var all []plugincel.ExpressionAccessor
	for i := range conditions {
		all = append(all, (*matchconditions.MatchCondition)(&conditions[i]))
	}
	return matchconditions.NewMatcher(c.CompileCondition(all, declared, stored), new(admissionv1.Fail), "policy", "admit", RequestsName)
}

func creation(pod *corev1.Pod) *admission.VersionedAttributes {
	kind, resource := corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithResource("pods")
	return &admission.VersionedAttributes{VersionedKind: kind, VersionedObject: admission.NewLazyObject(pod), VersionedOldObject: admission.NewLazyObject(nil),
		Attributes: admission.NewAttributesRecord(pod, nil, kind, pod.Namespace, pod.Name, resource, "", admission.Create, &metav1.CreateOptions{}, false, nil)}
}

// fatal is a test or a property.
type fatal interface {
	Helper()
	Fatal(...any)
}

// create returns the pod that is stored where requests are raised, and what a user is told where
// they are not.
func (s *server) create(t fatal, pod *corev1.Pod) (stored *corev1.Pod, warning string) {
	t.Helper()
	pod = pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	corev1defaults.SetObjectDefaults_Pod(pod)
	resource := corev1.SchemeGroupVersion.WithResource("pods")
	decisions := s.validator.Validate(s.validating.CreateContext(context.Background()), resource, creation(pod), nil, &corev1.Namespace{}, celconfig.RuntimeCELCostBudget, nil)
	for _, d := range decisions.Decisions {
		if d.Evaluation == validating.EvalError {
			t.Fatal(d.Message)
		}
		if d.Action == validating.ActionDeny {
			warning = d.Message
		}
	}
	ctx := s.mutating.CreateContext(context.Background())
	if match := s.matcher.Match(ctx, creation(pod), nil, nil); match.Error != nil {
		t.Fatal(match.Error)
	} else if !match.Matches {
		return pod, warning
	}
	patched, err := s.patcher.Patch(ctx, patch.Request{MatchedResource: resource, VersionedAttributes: creation(pod),
		ObjectInterfaces: admission.NewObjectInterfacesFromScheme(scheme.Scheme), Namespace: &corev1.Namespace{}}, celconfig.RuntimeCELCostBudget)
	if err != nil {
		t.Fatal(err)
	}
	return patched.(*corev1.Pod), warning
}

// drawRequests draws a pod with any requests that the API server accepts. Most pods ask, some of
// them with one thing by which they do not get exclusive CPUs.
func drawRequests(t *rapid.T) *corev1.Pod {
	pod := requesting("p", "0", "1")
	annotate := func(keys []string, value string) {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, rapid.SampledFrom(keys).Draw(t, value), value)
	}
	annotate(api.CPUSetSchedulerKeys(), "true")
	switch rapid.SampledFrom([]string{"", "", "static", "any", "burst", "none", "node", "scheduler", "mirror", "LS", "BE"}).Draw(t, "kind") {
	case "static":
		annotate(api.CPUPolicyKeys(), "static")
	case "any":
		pod = drawPod(t, "")
	case "burst":
		annotate(api.CPUPolicyKeys(), "static-burst")
	case "none":
		annotate(api.CPUPolicyKeys(), "none")
	case "node":
		pod.Spec.NodeName = "n"
	case "scheduler":
		pod.Spec.SchedulerName = "other"
	case "mirror":
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, corev1.MirrorPodAnnotationKey, "x")
	case "LS":
		metav1.SetMetaDataLabel(&pod.ObjectMeta, rapid.SampledFrom(api.QoSKeys()).Draw(t, "key"), "LS")
	case "BE":
		metav1.SetMetaDataLabel(&pod.ObjectMeta, rapid.SampledFrom(api.QoSKeys()).Draw(t, "key"), "BE")
	}
	pod.Spec.Containers = nil
	for i := range rapid.IntRange(0, 3).Draw(t, "init containers") {
		c := drawContainer(t, fmt.Sprintf("init-%d", i))
		if rapid.Bool().Draw(t, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		pod.Spec.Containers = append(pod.Spec.Containers, drawContainer(t, fmt.Sprintf("main-%d", i)))
	}
	corev1defaults.SetObjectDefaults_Pod(pod)
	if rapid.IntRange(0, 2).Draw(t, "pod as a whole") == 0 {
		own, least := &corev1.ResourceRequirements{}, int64(api.EffectiveRequest(pod))
		if rapid.Bool().Draw(t, "own request") {
			least += rapid.Int64Range(0, 6000).Draw(t, "more")
			own.Requests = corev1.ResourceList{"cpu": *resource.NewMilliQuantity(least, resource.DecimalSI)}
		}
		if rapid.Bool().Draw(t, "own limit") {
			for _, c := range containers(pod) {
				least = max(least, c.Resources.Limits.Cpu().MilliValue())
			}
			own.Limits = corev1.ResourceList{"cpu": *resource.NewMilliQuantity(least+rapid.Int64Range(0, 9000).Draw(t, "above"), resource.DecimalSI)}
		}
		pod.Spec.Resources = own
	}
	corev1defaults.SetObjectDefaults_Pod(pod)
	return pod
}

func drawContainer(t *rapid.T, name string) corev1.Container {
	c := corev1.Container{Name: name}
	amount := func(label string, values ...string) (list corev1.ResourceList) {
		if text := rapid.SampledFrom(values).Draw(t, label); text != "" {
			list = corev1.ResourceList{"cpu": resource.MustParse(text)}
		}
		return list
	}
	c.Resources.Limits = amount("limit", "", "1", "2", "4", "4000m", "4.0", "4e0", "0.004k", "2500m", "1e-3")
	c.Resources.Requests = amount("request", "", "0", "1m", "500m", "1", "1.5", "4")
	if limit, ok := c.Resources.Limits["cpu"]; ok && c.Resources.Requests.Cpu().Cmp(limit) > 0 {
		c.Resources.Requests["cpu"] = limit.DeepCopy()
	}
	return c
}

func containers(pod *corev1.Pod) map[string]*corev1.Container {
	all := map[string]*corev1.Container{}
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all[list[i].Name] = &list[i]
		}
	}
	return all
}

// wanted returns the pod that should be stored if its containers ask for CPUs. A pod whose own limit
// has no room for the requests stays as it is.
func wanted(pod *corev1.Pod, asks []ledger.ContainerAsk) *corev1.Pod {
	raised := pod.DeepCopy()
	all := containers(raised)
	for _, ask := range asks {
		all[ask.Name].Resources.Requests["cpu"] = *resource.NewQuantity(int64(ask.CPUs), resource.DecimalSI)
	}
	var main, init, sidecars int64
	for _, c := range raised.Spec.Containers {
		main += c.Resources.Requests.Cpu().MilliValue()
	}
	for _, c := range raised.Spec.InitContainers {
		if request := c.Resources.Requests.Cpu().MilliValue(); c.RestartPolicy != nil {
			sidecars += request
		} else {
			init = max(init, request)
		}
	}
	own := raised.Spec.Resources
	if own == nil || maps.Equal(amountsOf(pod), amountsOf(raised)) {
		return raised
	}
	total := *resource.NewMilliQuantity(max(main, init)+sidecars, resource.DecimalSI)
	if limit, ok := own.Limits["cpu"]; ok && limit.Cmp(total) < 0 {
		return pod
	}
	if request, ok := own.Requests["cpu"]; ok && request.Cmp(total) < 0 {
		own.Requests["cpu"] = total
	}
	return raised
}

// amounts of CPU of a pod, as text.
func amountsOf(pod *corev1.Pod) map[string]string {
	texts := map[string]string{}
	note := func(name string, r *corev1.ResourceRequirements) {
		texts[name] = fmt.Sprintf("request %dm, limit %dm", r.Requests.Cpu().MilliValue(), r.Limits.Cpu().MilliValue())
	}
	for name, c := range containers(pod) {
		note(name, &c.Resources)
	}
	if pod.Spec.Resources != nil {
		note("pod", pod.Spec.Resources)
	}
	return texts
}

// Requests are raised of exactly those containers that get exclusive CPUs by the rules of package
// api, and where they are not raised, the same pods cause a
// warning. kube-scheduler and Karpenter (Ceiling in its pkg/utils/resources, 1.15) then count at
// least the exclusive CPUs, the agent gives them, and the API server's validation accepts the pod.
func TestRequestsAgreeWithBooks(t *testing.T) {
	s, seen := newServer(t), map[string]int{}
	check := func(rt *rapid.T) {
		pod := drawRequests(rt)
		intent, err := api.Parse(pod)
		if err != nil && !slices.Contains(slices.Collect(maps.Values(pod.Labels)), "BE") {
			return // it is not placed as it is written
		}
		_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
		want := pod
		if intent.Asks() && intent.Ask.Policy == placement.Static && !mirror {
			want = wanted(pod, intent.Ask.Containers)
			seen["asks"]++
		}
		got, warning := s.create(rt, pod)
		if diff := cmp.Diff(amountsOf(want), amountsOf(got)); diff != "" {
			rt.Fatalf("%v %v (-want +got):\n%s", pod.Annotations, amountsOf(pod), diff)
		}
		low := !maps.Equal(amountsOf(pod), amountsOf(want))
		if low != (warning != "") {
			rt.Fatalf("%v: %v is stored as %v, and the warning is %q", pod.Annotations, amountsOf(pod), amountsOf(got), warning)
		}
		seen[fmt.Sprint("low ", low)]++
		if counted := api.EffectiveRequest(got); low && counted < ledger.MilliCPU(intent.Ask.CPUs())*1000 {
			rt.Fatalf("%v: %v CPUs are exclusive, and %v requested", amountsOf(got), intent.Ask.CPUs(), counted)
		}
		if now, err := api.Parse(got); low && (err != nil || !api.Covers(&now.Ask)) {
			rt.Fatalf("%v: requests do not cover the CPUs: %v", amountsOf(got), err)
		}
		again, _ := s.create(rt, got)
		if diff := cmp.Diff(got, again); diff != "" {
			rt.Fatalf("a second time (-want +got):\n%s", diff)
		}
		valid(rt, got)
	}
	property.Check(t, check, func() string {
		if seen["low true"] == 0 || seen["low false"] == 0 || seen["asks"] == seen["low true"] {
			return fmt.Sprint(seen)
		}
		return ""
	})
}

// valid checks the resources of a pod as the API server does.
func valid(t *rapid.T, pod *corev1.Pod) {
	var internal core.Pod
	if err := corev1defaults.Convert_v1_Pod_To_core_Pod(pod, &internal, nil); err != nil {
		t.Fatal(err)
	}
	for _, err := range validation.ValidatePodSpec(&internal.Spec, &internal.ObjectMeta, nil, validation.PodValidationOptions{PodLevelResourcesEnabled: true}) {
		if strings.Contains(err.Field, "resources") {
			t.Fatalf("%v: %v", amountsOf(pod), err)
		}
	}
}

// TestRequestsWarning shows what a user is told.
func TestRequestsWarning(t *testing.T) {
	pod := requesting("p", "1", "4")
	pod.Spec.Containers[0].Name = "app"
	_, warning := newServer(t).create(t, pod)
	if want := "container app asks for 4 CPUs and requests 1: autoscalers and quotas count requests; write requests.cpu: 4"; warning != want {
		t.Errorf("got %q, want %q", warning, want)
	}
}

// TestRequestsOfManyContainers: the evaluation of a pod with as many containers as may get CPUs, and as
// many again, costs less than the API server allows.
func TestRequestsOfManyContainers(t *testing.T) {
	pod := requesting("p", "1", "4")
	pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("200")}}
	pod.Spec.Containers = slices.Repeat(pod.Spec.Containers, api.MostPlaced)
	pod.Spec.InitContainers = slices.Clone(pod.Spec.Containers)
	got, _ := newServer(t).create(t, pod)
	if last := got.Spec.Containers[api.MostPlaced-1].Resources.Requests.Cpu(); last.Value() != 4 {
		t.Errorf("the last container requests %v", last)
	}
	if own := got.Spec.Resources.Requests.Cpu(); own.Value() != 4*api.MostPlaced {
		t.Errorf("the pod requests %v", own)
	}
}

// TestKarpenterPods keeps the pods that test/autoscalers shows to Karpenter, as they are created and
// as they are stored.
func TestKarpenterPods(t *testing.T) {
	server := newServer(t)
	created, stored := map[string]*corev1.Pod{}, map[string]*corev1.Pod{}
	for name, cpus := range map[string]string{"onN1": "4", "onN2": "6", "waits": "5", "tooLarge": "12"} {
		created[name] = requesting(strings.ToLower(name), "1", cpus)
		stored[name], _ = server.create(t, created[name])
	}
	text := must.Get(json.MarshalIndent(map[string]any{"created": created, "stored": stored}, "", "  "))(t)
	golden.Compare(t, "../../test/autoscalers/testdata/pods.json", string(text)+"\n")
}

// requesting returns a pod that asks for exclusive CPUs by its limit, and requests something else.
func requesting(name, request, limit string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name), Annotations: map[string]string{api.CPUSetSchedulerAnnotation: "true"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse(request)}, Limits: corev1.ResourceList{"cpu": resource.MustParse(limit)}}}}},
	}
}
