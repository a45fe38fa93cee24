package nodetopology

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// definition returns the definition in the manifest.
func definition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	text, err := os.ReadFile("../../deploy/chart/crds/noderesourcetopology.yaml")
	if err != nil {
		t.Fatal(err)
	}
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
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	crd := definition(t)
	scheme.Default(crd)
	var internal apiextensions.CustomResourceDefinition
	if err := scheme.Convert(crd, &internal, nil); err != nil {
		t.Fatal(err)
	}
	return &internal
}

func TestCRDIsAccepted(t *testing.T) {
	crd := internalCRD(t)
	crd.Status.StoredVersions = []string{"v1alpha2"}
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
	structural, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	validator, _, err := validation.NewSchemaValidator(internal.OpenAPIV3Schema)
	if err != nil {
		t.Fatal(err)
	}
	all := machines(t)
	for _, name := range machineNames(all) {
		text, err := json.Marshal(encode(t, all[name], someState))
		if err != nil {
			t.Fatal(err)
		}
		var before, after map[string]any
		for _, into := range []*map[string]any{&before, &after} {
			if err := json.Unmarshal(text, into); err != nil {
				t.Fatal(err)
			}
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
func TestCRDMeansWhatUpstreamSays(t *testing.T) {
	const module = "github.com/k8stopologyawareschedwg/noderesourcetopology-api"
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		t.Fatalf("find the module %s: %v", module, err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "manifests", "crd.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var upstream apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(text, &upstream); err != nil {
		t.Fatal(err)
	}
	ours := definition(t)
	for _, v := range upstream.Spec.Versions {
		if v.Name == "v1alpha2" {
			upstream.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{v}
		}
	}
	wording := cmp.FilterPath(func(p cmp.Path) bool {
		return p.Last().String() == ".Description"
	}, cmp.Ignore())
	if diff := cmp.Diff(upstream.Spec, ours.Spec, wording, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("spec (-upstream +ours):\n%s", diff)
	}
	const approved = apiextensionsv1.KubeAPIApprovedAnnotation
	if upstream.Name != ours.Name || upstream.Annotations[approved] != ours.Annotations[approved] {
		t.Errorf("got %s %v, want %s %v", ours.Name, ours.Annotations, upstream.Name, upstream.Annotations)
	}
}
