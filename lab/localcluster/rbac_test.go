package localcluster

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestRightsEqualTheManifests checks that agent and scheduler have the same rights here as with the
// manifests.
func TestRightsEqualTheManifests(t *testing.T) {
	for manifest, name := range map[string]string{"agent-rbac.yaml": "pinfold:local-agent", "scheduler-rbac.yaml": "pinfold:local-scheduler"} {
		text, err := os.ReadFile("../../deploy/manifests/" + manifest)
		if err != nil {
			t.Fatal(err)
		}
		here, there := map[string][]rbacv1.PolicyRule{}, map[string][]rbacv1.PolicyRule{}
		for _, document := range bytes.Split(text, []byte("\n---\n")) {
			var role rbacv1.Role // a ClusterRole has the same fields, and no namespace
			if err := yaml.Unmarshal(document, &role); err == nil && (role.Kind == "ClusterRole" || role.Kind == "Role") {
				there[role.Namespace] = role.Rules
			}
		}
		for _, g := range pinfoldGrants() {
			if g.name == name {
				here[g.namespace] = g.rules
			}
		}
		if diff := cmp.Diff(there, here); diff != "" || len(here) == 0 {
			t.Errorf("the rights here differ from those in %s (-manifest +here):\n%s", manifest, diff)
		}
	}
}
