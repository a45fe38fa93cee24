package admission

import (
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"

	"pinfold.dev/pinfold/test/must"
)

// TestMisplaced evaluates the policy as the API server does.
func TestMisplaced(t *testing.T) {
	env := must.Get(cel.NewEnv(cel.OptionalTypes(), ext.Strings(), cel.Variable("object", cel.DynType), cel.Variable("variables", cel.MapType(cel.StringType, cel.DynType))))(t)
	eval := func(expression string, object, variables any) any {
		ast, issues := env.Compile(expression)
		must.Do(t, issues.Err())
		value, _, err := must.Get(env.Program(ast))(t).Eval(map[string]any{"object": object, "variables": variables})
		must.Do(t, err)
		return value.Value()
	}
	const asks, template = `{"metadata": {"annotations": {"cpuset-scheduler": "true"}}`, `"spec": {"template": `
	const label, start, remedy = `{"metadata": {"labels": {"alibabacloud.com/qosClass": "BE"}}`, "without effect here: ", "; write it on pods, in the metadata of their template"
	const lost = start + "annotation cpuset-scheduler" + remedy
	for object, want := range map[string]string{
		asks + "}":                                                       lost,
		asks + ", " + template + "{}}}":                                  lost,
		asks + ", " + template + asks + "}}}":                            "",
		`{"metadata": {}, ` + template + asks + "}}}":                    "",
		asks + `, "spec": {"jobTemplate": {` + template + `{}}}}}`:       lost,
		asks + `, "spec": {"jobTemplate": {` + template + asks + `}}}}}`: "",
		`{"metadata": {"annotations": {"cpu-policy": "static"}}}`:        "", // may be other software's

		`{"metadata": {"annotations": {"koordinator.sh/cpuBurst": "{}"}}}`: start + "annotation koordinator.sh/cpuBurst" + remedy,
		`{"metadata": {"labels": {"pinfold.dev/qos": "BE"}}}`:              start + "label pinfold.dev/qos" + remedy,
		label + ", " + template + "{}}}":                                   start + "label alibabacloud.com/qosClass" + remedy,
		label + ", " + template + label + "}}}":                            "",
		label + `, "spec": {"jobTemplate": {` + template + label + `}}}}}`: "",
		label + `, "spec": {"jobTemplate": {` + template + asks + `}}}}}`:  start + "label alibabacloud.com/qosClass" + remedy,
		`{"metadata": {"labels": {"pinfold.dev/qos": "BE"}, "annotations": {"cpuset-scheduler": "true", "pinfold.dev/cpu-burst": "{}"}}}`: start +
			"annotation cpuset-scheduler, annotation pinfold.dev/cpu-burst, label pinfold.dev/qos" + remedy,
		`{"metadata": {"labels": {"app": "web"}, "annotations": {"owner": ""}}}`: "",
	} {
		spec, variables, got, value := Misplaced().Spec, map[string]any{}, "", eval(object, nil, nil)
		if eval(spec.MatchConditions[0].Expression, value, nil) == true {
			for _, v := range spec.Variables {
				variables[v.Name] = eval(v.Expression, value, variables)
			}
			if eval(spec.Validations[0].Expression, value, variables) == false {
				got = eval(spec.Validations[0].MessageExpression, value, variables).(string)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", object, got, want)
		}
	}
}
