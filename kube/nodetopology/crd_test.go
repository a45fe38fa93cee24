package nodetopology

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/test/must"
)

// definition returns the definition in the manifest.
func definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text := must.Get(os.ReadFile("../../deploy/chart/crds/nodetopology.yaml"))(t)
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &crd); err != nil {
		t.Fatal(err)
	}
	return &crd
}

// internalCRD returns the definition in the API server's internal form.
func internalCRD(t *testing.T) *apiextensions.CustomResourceDefinition {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiextensions.AddToScheme, apiextensionsv1.AddToScheme} {
		must.Do(t, add(scheme))
	}
	crd := definition(t)
	scheme.Default(crd)
	var internal apiextensions.CustomResourceDefinition
	must.Do(t, scheme.Convert(crd, &internal, nil))
	return &internal
}

func TestCRDIsAccepted(t *testing.T) {
	crd := internalCRD(t)
	crd.Status.StoredVersions = []string{"v1alpha1"}
	if errs := crdvalidation.ValidateCustomResourceDefinition(t.Context(), crd); len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
}

// The API server drops fields that are not in the schema, and rejects invalid ones.
func TestObjectsFitTheSchema(t *testing.T) {
	internal := internalCRD(t).Spec.Validation
	if internal == nil {
		internal = internalCRD(t).Spec.Versions[0].Schema
	}
	structural := must.Get(structuralschema.NewStructural(internal.OpenAPIV3Schema))(t)
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	all := machines(t)
	for _, name := range machineNames(all) {
		text := must.Get(json.Marshal(encode(t, all[name], someState)))(t)
		var before, after map[string]any
		for _, into := range []*map[string]any{&before, &after} {
			must.Do(t, json.Unmarshal(text, into))
		}
		if errs := validation.ValidateCustomResource(nil, after, validator); len(errs) > 0 {
			t.Errorf("%s: %v", name, errs.ToAggregate())
		}
		pruning.Prune(after, structural, true)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: the API server drops (-):\n%s", name, diff)
		}
	}
}

// TestCRDMeansWhatUpstreamSays: the definition must accept all objects of upstream tools, so it
// must equal that of the API's module except for descriptions.
