package localcluster

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/must"
)

// TestGrantsOfTheManifests checks that agent and scheduler have the cluster role and the role of
// their manifests.
func TestGrantsOfTheManifests(t *testing.T) {
	all := must.Get(pinfoldGrants())(t)
	for _, name := range []string{"pinfold:local-agent", "pinfold:local-scheduler"} {
		var namespaces []string
		for _, g := range all {
			if g.name == name && len(g.rules) > 0 {
				namespaces = append(namespaces, g.namespace)
			}
		}
		slices.Sort(namespaces)
		if diff := cmp.Diff([]string{"", nodetopology.LeaseNamespace}, namespaces); diff != "" {
			t.Errorf("roles of %s by namespace (-want +got):\n%s", name, diff)
		}
	}
}
