package admission

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"pinfold.dev/pinfold/kube/api"
)

// MisplacedName is the name of the policy that warns of misplaced annotations and labels, and of its
// binding.
const MisplacedName = "pinfold-misplaced-annotations"

// Misplaced warns of annotations and labels of pods that are written on what makes pods, and not on their
// template, or on a Namespace. Pods do not get these, and neither scheduler nor agents read such objects.
func Misplaced() *admissionv1.ValidatingAdmissionPolicy {
	fields := map[string][]string{"annotations": api.PodAnnotations(), "labels": api.QoSKeys()}
	has := func(field string) string { return "k in object.metadata.?" + field + ".orValue({})" }
	written := func(field string) string { return quoted(fields[field]) + ".exists(k, " + has(field) + ")" }
	template := func(field string) admissionv1.Variable {
		const metadata = "object.?spec.?%stemplate.?metadata.?%s"
		return admissionv1.Variable{Name: field, Expression: fmt.Sprintf(metadata+".or("+metadata+").orValue({})", "jobTemplate.?spec.?", field, "", field)}
	}
	lost := func(name, field string) string {
		return fmt.Sprintf("%s.filter(k, %s && !(k in variables.%s)).map(k, %q + k)", quoted(fields[field]), has(field), field, name+" ")
	}
	policy := newPolicy(MisplacedName, admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: matching(admissionv1.AllScopes, []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"}},
			admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments", "statefulsets", "daemonsets"}},
			admissionv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs", "cronjobs"}}),
		MatchConditions: []admissionv1.MatchCondition{{Name: "annotated", Expression: written("annotations") + " || " + written("labels")}},
		Variables: []admissionv1.Variable{
			template("annotations"),
			template("labels"),
			{Name: "lost", Expression: lost("annotation", "annotations") + " + " + lost("label", "labels")},
		},
		Validations: []admissionv1.Validation{{Expression: "variables.lost.size() == 0",
			MessageExpression: `"without effect here: " + variables.lost.join(", ") + "; write it on pods, in the metadata of their template"`}},
	})
	policy.Spec.FailurePolicy = new(admissionv1.Ignore)
	return policy
}

// MisplacedBinding makes [Misplaced] warn everywhere.
func MisplacedBinding() *admissionv1.ValidatingAdmissionPolicyBinding {
	binding := newBinding(MisplacedName, nil)
	binding.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
	return binding
}
