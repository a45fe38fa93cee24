package admission

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/api"
)

// The lease by which kube-scheduler elects a leader unless it is configured otherwise.
const (
	LeaseNamespace = metav1.NamespaceSystem
	LeaseName      = "kube-scheduler"
)

// FenceName is the name of the policy for a scheduler's lease, and of its binding.
func FenceName(lease string) string { return "pinfold-bindings-" + lease }

// Fence refuses Bindings of a scheduler that does not lead any more. A Binding says by an
// annotation which lease its scheduler holds, and as who; the policy compares that with the
// lease. Bindings that say nothing, or name another lease, are not judged.
func Fence(namespace, lease string) *admissionv1.ValidatingAdmissionPolicy {
	forbidden := metav1.StatusReasonForbidden
	prefix := namespace + "/" + lease + " "
	return newPolicy(FenceName(lease),
		admissionv1.ValidatingAdmissionPolicySpec{
			ParamKind: &admissionv1.ParamKind{APIVersion: coordinationv1.SchemeGroupVersion.String(), Kind: "Lease"},
			MatchConstraints: matching(admissionv1.NamespacedScope, []admissionv1.OperationType{admissionv1.Create},
				admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding", "bindings"}}),
			MatchConditions: []admissionv1.MatchCondition{{Name: "names-the-lease", Expression: fmt.Sprintf(
				`object.metadata.?annotations[?%q].orValue("").startsWith(%q)`, api.SchedulerAnnotation, prefix)}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf(`object.metadata.annotations[%q] == %q + params.spec.?holderIdentity.orValue("")`, api.SchedulerAnnotation, prefix),
				Message:    "another scheduler holds the lease " + namespace + "/" + lease, Reason: &forbidden,
			}},
		})
}

// FenceBinding puts [Fence] in force in all namespaces. While there is no lease, there is
// no leader either, and nothing is refused.
func FenceBinding(namespace, lease string) *admissionv1.ValidatingAdmissionPolicyBinding {
	allow := admissionv1.AllowAction
	binding := newBinding(FenceName(lease), inNamespaces(metav1.LabelSelector{}))
	binding.Spec.ParamRef = &admissionv1.ParamRef{Namespace: namespace, Name: lease, ParameterNotFoundAction: &allow}
	return binding
}
