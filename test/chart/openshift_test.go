package chart

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/utils/ptr"

	"pinfold.dev/pinfold/test/must"
)

// constraints are those fields of OpenShift's SecurityContextConstraints that depend on values.
type constraints struct {
	AllowHostPID, AllowPrivilegedContainer, AllowPrivilegeEscalation, ReadOnlyRootFilesystem bool
	AllowedCapabilities                                                                      []corev1.Capability
	SeccompProfiles                                                                          []string
}

// TestOpenShift checks that the constraints allow what the pods of all pools ask for, and no more,
// and that the scheduler's pods fit those that every pod may use (restricted-v2).
func TestOpenShift(t *testing.T) {
	all := allValues(t)
	all["own contexts"] = "agent: {containerSecurityContext: {readOnlyRootFilesystem: false, seccompProfile: {type: Unconfined}}, pools: {a: {containerSecurityContext: {allowPrivilegeEscalation: true, seccompProfile: null}}}}"
	all["rights"] = "agent: {capabilities: [SYSLOG], pools: {a: {tracePercent: 1}, b: {batchPriority: core-scheduling}, c: {capabilities: [SYSLOG]}}}"
	for name, values := range all {
		if agent, _ := components(t, values); !agent {
			continue
		}
		manifest := render(t, values+"\nopenshift: true\n")
		asked, allowed := constraints{ReadOnlyRootFilesystem: true, SeccompProfiles: []string{"runtime/default"}}, constraints{}
		for _, set := range agentSets(t, manifest) {
			context := set.Spec.Template.Spec.Containers[0].SecurityContext
			asked.AllowHostPID = asked.AllowHostPID || set.Spec.Template.Spec.HostPID
			asked.AllowPrivilegedContainer = asked.AllowPrivilegedContainer || *context.Privileged
			asked.AllowPrivilegeEscalation = asked.AllowPrivilegeEscalation || asked.AllowPrivilegedContainer || ptr.Deref(context.AllowPrivilegeEscalation, false)
			asked.ReadOnlyRootFilesystem = asked.ReadOnlyRootFilesystem && ptr.Deref(context.ReadOnlyRootFilesystem, true)
			pod := ptr.Deref(set.Spec.Template.Spec.SecurityContext, corev1.PodSecurityContext{})
			for _, profile := range []*corev1.SeccompProfile{context.SeccompProfile, pod.SeccompProfile} {
				if asked.AllowPrivilegedContainer || profile != nil && profile.Type != corev1.SeccompProfileTypeRuntimeDefault {
					asked.SeccompProfiles = []string{"*"}
				}
			}
			if context.Capabilities != nil {
				asked.AllowedCapabilities = append(asked.AllowedCapabilities, context.Capabilities.Add...)
			}
			if context.SELinuxOptions == nil || context.SELinuxOptions.Type != "spc_t" {
				t.Errorf("%s: %s has the SELinux options %v", name, set.Name, context.SELinuxOptions)
			}
		}
		for _, object := range documents(t, manifest) {
			if object.GetKind() == "SecurityContextConstraints" {
				must.Do(t, json.Unmarshal(must.Get(object.MarshalJSON())(t), &allowed))
			}
		}
		for _, c := range []*constraints{&asked, &allowed} {
			slices.Sort(c.AllowedCapabilities)
			c.AllowedCapabilities = append([]corev1.Capability{}, slices.Compact(c.AllowedCapabilities)...)
		}
		if diff := cmp.Diff(asked, allowed); diff != "" {
			t.Errorf("%s: -pods +constraints:\n%s", name, diff)
		}
	}
	manifest := render(t, "openshift: true")
	var may []string
	for _, subject := range find[*rbacv1.RoleBinding](t, manifest, "pinfold:openshift").Subjects {
		may = append(may, subject.Name)
	}
	if want := []string{"pinfold-agent", "pinfold-uninstall"}; !slices.Equal(may, want) {
		t.Errorf("%q may use the constraints, want %q", may, want)
	}
	pod := find[*appsv1.Deployment](t, manifest, "pinfold-scheduler").Spec.Template.Spec
	if ids := pod.SecurityContext; ids.RunAsUser != nil || ids.RunAsGroup != nil || ids.FSGroup != nil || !*ids.RunAsNonRoot {
		t.Errorf("OpenShift's namespaces have other IDs than %+v", ids)
	}
}
