package admission

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"pinfold.dev/pinfold/kube/nodetopology"
)

// Install creates those policies and bindings that do not exist, for the default name of the agent's
// service account. The API server enforces them within about a second.
func Install(ctx context.Context, client kubernetes.Interface) error {
	if err := install(ctx, client, Policy(), Binding()); err != nil {
		return err
	}
	if err := install(ctx, client, AgentPolicy(nodetopology.LeaseNamespace, AgentAccount), AgentBinding()); err != nil {
		return err
	}
	if err := install(ctx, client, Misplaced(), MisplacedBinding()); err != nil {
		return err
	}
	return installRequests(ctx, client)
}

// installRequests creates [Requests], or [RequestsWarning] where the API server does not have its
// kind.
func installRequests(ctx context.Context, client kubernetes.Interface) error {
	registration := client.AdmissionregistrationV1()
	_, err := registration.MutatingAdmissionPolicies().Create(ctx, Requests(), metav1.CreateOptions{})
	if apierrors.IsNotFound(err) {
		return install(ctx, client, RequestsWarning(), RequestsWarningBinding())
	}
	if err == nil || apierrors.IsAlreadyExists(err) {
		_, err = registration.MutatingAdmissionPolicyBindings().Create(ctx, RequestsBinding(), metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create admission policy %s or its binding: %w", RequestsName, err)
	}
	return nil
}

func install(ctx context.Context, client kubernetes.Interface, policy *admissionv1.ValidatingAdmissionPolicy,
	binding *admissionv1.ValidatingAdmissionPolicyBinding) error {
	registration := client.AdmissionregistrationV1()
	if _, err := registration.ValidatingAdmissionPolicies().Create(ctx, policy, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create admission policy %s: %w", policy.Name, err)
	}
	if _, err := registration.ValidatingAdmissionPolicyBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the binding of admission policy %s: %w", policy.Name, err)
	}
	return nil
}

// newPolicy returns a policy that rejects requests for which its evaluation fails.
func newPolicy(name string, spec admissionv1.ValidatingAdmissionPolicySpec) *admissionv1.ValidatingAdmissionPolicy {
	spec.FailurePolicy = new(admissionv1.Fail)
	return &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       spec,
	}
}

// newBinding returns the policy's binding, of the same name. A nil match means everything that the
// policy matches.
func newBinding(policy string, match *admissionv1.MatchResources) *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: policy},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName:        policy,
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			MatchResources:    match,
		},
	}
}

// inNamespaces matches all objects in the selected namespaces.
func inNamespaces(namespaces metav1.LabelSelector) *admissionv1.MatchResources {
	return &admissionv1.MatchResources{MatchPolicy: new(admissionv1.Equivalent), NamespaceSelector: &namespaces, ObjectSelector: &metav1.LabelSelector{}}
}

// withoutLabel matches all objects in namespaces that do not have the label with value "true".
func withoutLabel(label string) *admissionv1.MatchResources {
	return inNamespaces(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: label, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"true"}}}})
}

// matching matches operations on the resources of the rules, in all namespaces.
func matching(scope admissionv1.ScopeType, operations []admissionv1.OperationType, rules ...admissionv1.Rule) *admissionv1.MatchResources {
	match := inNamespaces(metav1.LabelSelector{})
	for _, rule := range rules {
		rule.Scope = &scope
		match.ResourceRules = append(match.ResourceRules,
			admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{Operations: operations, Rule: rule}})
	}
	return match
}
