package admission

import (
	"testing"

	"github.com/google/cel-go/cel"

	"pinfold.dev/pinfold/test/must"
)

// TestMisplaced evaluates the policy as the API server does.
func TestMisplaced(t *testing.T) {
	type fields = map[string]any
	env := must.Get(cel.NewEnv(cel.OptionalTypes(), cel.Variable("object", cel.DynType), cel.Variable("variables", cel.MapType(cel.StringType, cel.DynType))))(t)
	eval := func(expression string, object, variables fields) any {
		ast, issues := env.Compile(expression)
		must.Do(t, issues.Err())
		value, _, err := must.Get(env.Program(ast))(t).Eval(fields{"object": object, "variables": variables})
		must.Do(t, err)
		return value.Value()
	}
	with := func(key string) fields { return fields{"metadata": fields{"annotations": fields{key: "true"}}} }
	asks := with("cpuset-scheduler")
	deployment := func(metadata, template fields) fields {
		return fields{"metadata": metadata["metadata"], "spec": fields{"template": template}}
	}
	const lost = "annotation cpuset-scheduler has no effect here: write it on pods, in the metadata of their template"
	for name, test := range map[string]struct {
		object fields
		want   string
	}{
		"namespace":       {asks, lost},
		"deployment":      {deployment(asks, fields{}), lost},
		"other template":  {deployment(asks, with("other")), lost},
		"template":        {deployment(fields{"metadata": fields{}}, asks), ""},
		"both":            {deployment(asks, asks), ""},
		"cron job":        {fields{"metadata": asks["metadata"], "spec": fields{"jobTemplate": deployment(fields{}, fields{})}}, lost},
		"cron job's pods": {fields{"metadata": asks["metadata"], "spec": fields{"jobTemplate": deployment(fields{}, asks)}}, ""},
		"others'":         {deployment(with("cpu-policy"), fields{}), ""},
	} {
		spec, variables, got := Misplaced().Spec, fields{}, ""
		if eval(spec.MatchConditions[0].Expression, test.object, nil) == true {
			for _, v := range spec.Variables {
				variables[v.Name] = eval(v.Expression, test.object, variables)
			}
			if eval(spec.Validations[0].Expression, test.object, variables) == false {
				got = eval(spec.Validations[0].MessageExpression, test.object, variables).(string)
			}
		}
		if got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
