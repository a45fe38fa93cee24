package admission

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/kube/api"
)

// The lease of kube-scheduler's leader election in its default configuration.
const (
	LeaseNamespace = metav1.NamespaceSystem
	LeaseName      = "kube-scheduler"
)

// FenceName returns the name of the policy for a scheduler's lease, and of its binding.
func FenceName(lease string) string { return "pinfold-bindings-" + lease }

// Fence rejects Bindings from a scheduler that is no longer the leader. An annotation of the Binding
// names the scheduler's lease and its holder, and the policy compares it with the lease. Bindings
// without the annotation, or with another lease, are not affected.
func Fence(namespace, lease string) *admissionv1.ValidatingAdmissionPolicy {
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
				Message:    "another scheduler holds the lease " + namespace + "/" + lease, Reason: new(metav1.StatusReasonForbidden),
			}},
		})
}

// FenceBinding enforces [Fence] in all namespaces. While the lease does not exist, there is no leader,
// and nothing is rejected.
func FenceBinding(namespace, lease string) *admissionv1.ValidatingAdmissionPolicyBinding {
	binding := newBinding(FenceName(lease), inNamespaces(metav1.LabelSelector{}))
	binding.Spec.ParamRef = &admissionv1.ParamRef{Namespace: namespace, Name: lease, ParameterNotFoundAction: new(admissionv1.AllowAction)}
	return binding
}
