package admission

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// newPolicy returns a policy that refuses what the API server cannot judge.
func newPolicy(name string, spec admissionv1.ValidatingAdmissionPolicySpec) *admissionv1.ValidatingAdmissionPolicy {
	fail := admissionv1.Fail
	spec.FailurePolicy = &fail
	return &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       spec,
	}
}

// newBinding returns the binding of the same name, which denies what the policy refuses. A
// nil match is everything that the policy matches.
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

// inNamespaces matches all objects in the namespaces with these labels.
func inNamespaces(namespaces metav1.LabelSelector) *admissionv1.MatchResources {
	equivalent := admissionv1.Equivalent
	return &admissionv1.MatchResources{MatchPolicy: &equivalent, NamespaceSelector: &namespaces, ObjectSelector: &metav1.LabelSelector{}}
}

// matching matches these operations on the resources of the rules, in all namespaces.
func matching(scope admissionv1.ScopeType, operations []admissionv1.OperationType, rules ...admissionv1.Rule) *admissionv1.MatchResources {
	match := inNamespaces(metav1.LabelSelector{})
	for _, rule := range rules {
		rule.Scope = &scope
		match.ResourceRules = append(match.ResourceRules,
			admissionv1.NamedRuleWithOperations{RuleWithOperations: admissionv1.RuleWithOperations{Operations: operations, Rule: rule}})
	}
	return match
}
