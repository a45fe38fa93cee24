package localcluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedrbacv1 "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// The users of the components. Those of the scheduler and the controller
// manager are bound to roles that the API server makes itself.
const (
	adminUser             = "pinfold-local-admin"
	adminGroup            = "system:masters"
	schedulerUser         = "system:kube-scheduler"
	controllerManagerUser = "system:kube-controller-manager"
	kwokUser              = "pinfold:kwok"
	kubeletClientUser     = "pinfold:kube-apiserver-kubelet-client"
)

// grant is a role with the one user or group that has it.
type grant struct {
	name        string
	user, group string
	// namespace is where the role holds, "" for everywhere.
	namespace string
	rules     []rbacv1.PolicyRule
}

func (g grant) subjects() []rbacv1.Subject {
	kind, name := rbacv1.UserKind, g.user
	if g.group != "" {
		kind, name = rbacv1.GroupKind, g.group
	}
	return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}}
}

func grants() []grant {
	return []grant{
		// As in deploy/manifests/scheduler-rbac.yaml.
		{name: "pinfold:local-scheduler", user: schedulerUser, rules: []rbacv1.PolicyRule{
			rule("topology.node.k8s.io", []string{"noderesourcetopologies"}, "get", "list", "watch"),
			rule("", []string{"nodes/status"}, "patch"),
		}},
		{name: "pinfold:local-scheduler", user: schedulerUser, namespace: nodetopology.LeaseNamespace, rules: []rbacv1.PolicyRule{
			rule("coordination.k8s.io", []string{"leases"}, "list", "watch"),
		}},
		// As the built-in role system:kubelet-api-admin: what the API server may ask a
		// real node's kubelet.
		{name: "pinfold:kubelet-api", user: kubeletClientUser, rules: []rbacv1.PolicyRule{
			rule("", []string{"nodes"}, "get", "list", "watch", "proxy"),
			rule("", []string{"nodes/log", "nodes/metrics", "nodes/proxy", "nodes/stats"}, "*"),
		}},
		// As in deploy/manifests/agent-rbac.yaml.
		{name: "pinfold:local-agent", group: admission.AgentGroup, rules: []rbacv1.PolicyRule{
			rule("", []string{"nodes"}, "get"),
			rule("", []string{"nodes/configz", "nodes/pods"}, "get"),
			rule("", []string{"nodes/status"}, "patch"),
			rule("", []string{"pods"}, "list", "watch"),
			rule("", []string{"events"}, "create", "patch"),
			rule("authentication.k8s.io", []string{"tokenreviews"}, "create"),
			rule("authorization.k8s.io", []string{"subjectaccessreviews"}, "create"),
			rule("topology.node.k8s.io", []string{"noderesourcetopologies"}, "get", "create", "update", "delete"),
		}},
		{name: "pinfold:local-agent", group: admission.AgentGroup, namespace: nodetopology.LeaseNamespace, rules: []rbacv1.PolicyRule{
			rule("coordination.k8s.io", []string{"leases"}, "get", "create", "update", "delete"),
		}},
		{name: "pinfold:kwok", user: kwokUser, rules: []rbacv1.PolicyRule{
			rule("", []string{"nodes"}, "get", "list", "watch"),
			rule("", []string{"pods"}, "get", "list", "watch", "patch", "update", "delete"),
			rule("", []string{"nodes/status", "pods/status"}, "patch", "update"),
			rule("", []string{"events"}, "create", "patch", "update"),
			rule("events.k8s.io", []string{"events"}, "create", "patch", "update"),
			rule("coordination.k8s.io", []string{"leases"}, "get", "list", "watch", "create", "patch", "update"),
		}},
	}
}

func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// createGrants gives the components what the built-in roles do not.
func createGrants(ctx context.Context, client kubernetes.Interface) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nodetopology.LeaseNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
	}
	for _, g := range grants() {
		if err := g.create(ctx, client.RbacV1()); err != nil {
			return fmt.Errorf("grant role %s: %w", g.name, err)
		}
	}
	return nil
}

func (g grant) create(ctx context.Context, client typedrbacv1.RbacV1Interface) error {
	meta := metav1.ObjectMeta{Name: g.name, Namespace: g.namespace}
	if g.namespace != "" {
		role := &rbacv1.Role{ObjectMeta: meta, Rules: g.rules}
		if _, err := client.Roles(g.namespace).Create(ctx, role, metav1.CreateOptions{}); err != nil {
			return err
		}
		binding := &rbacv1.RoleBinding{ObjectMeta: meta, Subjects: g.subjects(),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: g.name}}
		_, err := client.RoleBindings(g.namespace).Create(ctx, binding, metav1.CreateOptions{})
		return err
	}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: g.rules}
	if _, err := client.ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		return err
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: g.subjects(),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: g.name}}
	_, err := client.ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{})
	return err
}
