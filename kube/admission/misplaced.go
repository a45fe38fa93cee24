package admission

import (
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"pinfold.dev/pinfold/kube/api"
)

// MisplacedName is the name of the policy that warns of misplaced annotations, and of its binding.
const MisplacedName = "pinfold-misplaced-annotations"

// Misplaced warns of annotations of pods that are written on what makes pods, and not on their template,
// or on a Namespace. Pods do not get these, and neither scheduler nor agents read such objects.
func Misplaced() *admissionv1.ValidatingAdmissionPolicy {
	keys := quoted(api.OwnAnnotations())
	policy := newPolicy(MisplacedName, admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: matching(admissionv1.AllScopes, []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"namespaces"}},
			admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments", "statefulsets", "daemonsets"}},
			admissionv1.Rule{APIGroups: []string{"batch"}, APIVersions: []string{"v1"}, Resources: []string{"jobs", "cronjobs"}}),
		MatchConditions: []admissionv1.MatchCondition{{Name: "annotated", Expression: keys + ".exists(k, k in object.metadata.?annotations.orValue({}))"}},
		Variables: []admissionv1.Variable{
			{Name: "template", Expression: "object.?spec.?jobTemplate.?spec.?template.?metadata.?annotations" +
				".or(object.?spec.?template.?metadata.?annotations).orValue({})"},
			{Name: "lost", Expression: keys + ".filter(k, k in object.metadata.annotations && !(k in variables.template))"},
		},
		Validations: []admissionv1.Validation{{Expression: "variables.lost.size() == 0",
			MessageExpression: `"annotation " + variables.lost[0] + " has no effect here: write it on pods, in the metadata of their template"`}},
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
