package localcluster

import (
	"bytes"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

// TestAgentHasTheRightsOfItsManifest: what runs here must run elsewhere.
func TestAgentHasTheRightsOfItsManifest(t *testing.T) {
	text, err := os.ReadFile("../../deploy/manifests/agent-rbac.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		var object rbacv1.ClusterRole
		if err := yaml.Unmarshal(document, &object); err == nil && object.Kind == "ClusterRole" {
			role = object
		}
	}
	for _, g := range grants() {
		if g.user != agentUser {
			continue
		}
		if diff := cmp.Diff(role.Rules, g.rules); diff != "" {
			t.Errorf("the agent's rights here differ from those in its manifest (-manifest +here):\n%s", diff)
		}
		return
	}
	t.Error("the agent has no rights here")
}
