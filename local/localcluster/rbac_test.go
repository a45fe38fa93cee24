package localcluster

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/test/must"
)

// TestGrants checks to whom roles are bound: agent and scheduler have those of their manifests.
func TestGrants(t *testing.T) {
	for stock, want := range map[bool]map[string]string{
		true: {"pinfold:kubelet-api": kubeletClientUser, "pinfold:kwok": kwokUser},
		false: {
			"pinfold:kubelet-api": kubeletClientUser, "pinfold:kwok": kwokUser, "pinfold:simulated-agents": agentsUser,
			"pinfold:local-agent": admission.AgentGroup, "pinfold-system/pinfold:local-agent": admission.AgentGroup,
			"pinfold:local-scheduler": schedulerUser, "pinfold-system/pinfold:local-scheduler": schedulerUser,
			"system:kube-scheduler": schedulerUser, "system:volume-scheduler": schedulerUser,
			"kube-system/extension-apiserver-authentication-reader": schedulerUser,
		},
	} {
		got := map[string]string{}
		for _, object := range must.Get(grants(stock))(t) {
			var binding rbacv1.RoleBinding
			must.Do(t, runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding))
			name := binding.RoleRef.Name
			if binding.Namespace != "" {
				name = binding.Namespace + "/" + name
			}
			if len(binding.Subjects) > 0 {
				got[name] = binding.Subjects[0].Name
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("stock %v: users of roles (-want +got):\n%s", stock, diff)
		}
	}
}
