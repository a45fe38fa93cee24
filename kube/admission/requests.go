package admission

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/kube/api"
)

const (
	// RequestsName is the name of the policy that raises requests, of the one that warns instead, and
	// of their bindings.
	RequestsName = "pinfold-cpu-requests"
	// KeepRequestsLabel exempts a namespace that has the label with value "true" from both.
	KeepRequestsLabel = "pinfold.dev/keep-requests"
)

// Requests raises requests.cpu of the containers of new pods that get exclusive CPUs to their limits: see
// the package comment. If its evaluation fails, the pod is created as it is, and borrows CPUs.
func Requests() *admissionv1.MutatingAdmissionPolicy {
	raise := func(list, path string) string {
		return fmt.Sprintf(`%s.transformList(i, c, %s, JSONPatch{op: "add", path: "/spec/%s/" + string(i) + "/resources/requests/cpu", value: c.resources.limits["cpu"]})`,
			list, isLow("c"), path)
	}
	return &admissionv1.MutatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: RequestsName},
		Spec: admissionv1.MutatingAdmissionPolicySpec{
			MatchConstraints: newPods(),
			MatchConditions:  exclusive(),
			Variables:        requestVariables(),
			Mutations: []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{
				Expression: "variables.low.size() == 0 || !variables.fits ? [] : " + raise("variables.init", "initContainers") + " + " + raise("object.spec.containers", "containers") + " + " +
					`("cpu" in object.spec.?resources.?requests.orValue({}) && ` + milli(requestOf("object.spec")) + " < variables.total ? " +
					`[JSONPatch{op: "add", path: "/spec/resources/requests/cpu", value: string(variables.total) + "m"}] : [])`,
			}}},
			FailurePolicy:      new(admissionv1.Ignore),
			ReinvocationPolicy: admissionv1.IfNeededReinvocationPolicy, // webhooks may add containers and change limits
		},
	}
}

// RequestsBinding enforces [Requests] in all namespaces without [KeepRequestsLabel].
func RequestsBinding() *admissionv1.MutatingAdmissionPolicyBinding {
	return &admissionv1.MutatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "MutatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: RequestsName},
		Spec:       admissionv1.MutatingAdmissionPolicyBindingSpec{PolicyName: RequestsName, MatchResources: withoutLabel(KeepRequestsLabel)},
	}
}

// RequestsWarning warns of the requests that [Requests] would raise, for API servers without
// MutatingAdmissionPolicies (before Kubernetes 1.36).
func RequestsWarning() *admissionv1.ValidatingAdmissionPolicy {
	policy := newPolicy(RequestsName, admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: newPods(),
		MatchConditions:  exclusive(),
		Variables:        requestVariables(),
		Validations: []admissionv1.Validation{{
			Expression: "variables.low.size() == 0 || !variables.fits",
			MessageExpression: `"container " + variables.low[0].name + " asks for " + variables.low[0].resources.limits["cpu"] + " CPUs and requests " + ` +
				requestOf("variables.low[0]") + ` + ": autoscalers and quotas count requests; write requests.cpu: " + variables.low[0].resources.limits["cpu"]`,
		}},
	})
	policy.Spec.FailurePolicy = new(admissionv1.Ignore)
	return policy
}

// RequestsWarningBinding makes [RequestsWarning] warn in all namespaces without
// [KeepRequestsLabel].
func RequestsWarningBinding() *admissionv1.ValidatingAdmissionPolicyBinding {
	binding := newBinding(RequestsName, withoutLabel(KeepRequestsLabel))
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
	return binding
}

func newPods() *admissionv1.MatchResources {
	return matching(admissionv1.NamespacedScope, []admissionv1.OperationType{admissionv1.Create},
		admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}})
}

// exclusive matches pods that get exclusive CPUs. Mirror pods show a static pod as it is.
func exclusive() []admissionv1.MatchCondition {
	const annotations, labels = "object.metadata.?annotations.orValue({})", "object.metadata.?labels.orValue({})"
	return []admissionv1.MatchCondition{
		{Name: "served", Expression: fmt.Sprintf("!(%q in %s)", corev1.MirrorPodAnnotationKey, annotations)},
		{Name: "asks", Expression: only(annotations, "true", api.CPUSetSchedulerKeys())},
		{Name: "static", Expression: all(annotations, string(placement.Static), api.CPUPolicyKeys())},
		{Name: "not-batch", Expression: "!(" + only(labels, string(qos.BE), api.QoSKeys()) + ")"},
	}
}

// requestVariables are what the policies compute about a pod. Amounts are in thousandths of a CPU.
//
// The pod's own request must be at least the total of its containers' requests, and its own limit
// at least the request. The total assumes that ordinary init containers run beside all sidecars. A
// pod whose limit has no room for it is left as it is.
func requestVariables() []admissionv1.Variable {
	raised := fmt.Sprintf("(%s ? %s : %s)", isLow("c"), milli(limitOf("c")), milli(requestOf("c")))
	const sidecar = `c.?restartPolicy.orValue("") == "Always"`
	return []admissionv1.Variable{
		{Name: "init", Expression: "object.spec.?initContainers.orValue([])"},
		{Name: "low", Expression: "(variables.init + object.spec.containers).filter(c, " + isLow("c") + ")"},
		{Name: "total", Expression: fmt.Sprintf("(variables.init.filter(c, !(%[1]s)).map(c, %[2]s) + [object.spec.containers.map(c, %[2]s).sum()]).max() + "+
			"variables.init.filter(c, %[1]s).map(c, %[2]s).sum()", sidecar, raised)},
		{Name: "fits", Expression: limitOf("object.spec") + ` == "0" || variables.total <= ` + milli(limitOf("object.spec"))},
	}
}

// isLow returns a CEL expression: whether a container has a whole number of CPUs as its limit, and
// requests less.
func isLow(c string) string {
	return fmt.Sprintf("(quantity(%[1]s).isInteger() && quantity(%[2]s).isLessThan(quantity(%[1]s)))", limitOf(c), requestOf(c))
}

// milli returns a CEL expression: an amount of CPU in thousandths. The API server has rounded it up
// to a whole number of them.
func milli(amount string) string {
	return fmt.Sprintf("int(quantity(%s).asApproximateFloat() * 1000.0 + 0.5)", amount)
}

// requestOf and limitOf return a CEL expression: the amount of CPU that a container, or a pod as a
// whole, requests or is limited to, "0" if it has none.
func requestOf(of string) string { return cpuOf(of, "requests", "0") }
func limitOf(of string) string   { return cpuOf(of, "limits", "0") }

// cpuOf returns a CEL expression: an amount of CPU in the resources of a container, or of a pod as a
// whole. The API server has normalized its text: "1000m" is "1".
func cpuOf(of, list, absent string) string {
	return fmt.Sprintf(`%s.?resources.?%s[?"cpu"].orValue(%q)`, of, list, absent)
}
