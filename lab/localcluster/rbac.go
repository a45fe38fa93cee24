package localcluster

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// The users of the components. Those of the scheduler and the controller
// manager are bound to roles that the API server makes itself.
const (
	adminUser             = "pinfold-local-admin"
	adminGroup            = "system:masters"
	schedulerUser         = "system:kube-scheduler"
	controllerManagerUser = "system:kube-controller-manager"
	kwokUser              = "pinfold:kwok"
	agentUser             = "pinfold:agent"
	kubeletClientUser     = "pinfold:kube-apiserver-kubelet-client"
)

// grant is a role with the one user that has it.
type grant struct {
	name  string
	user  string
	rules []rbacv1.PolicyRule
}

func grants() []grant {
	return []grant{
		{name: "pinfold:scheduler-topology", user: schedulerUser, rules: []rbacv1.PolicyRule{
			rule("topology.node.k8s.io", []string{"noderesourcetopologies"}, "get", "list", "watch"),
		}},
		// As the built-in role system:kubelet-api-admin: what the API server may ask a
		// real node's kubelet.
		{name: "pinfold:kubelet-api", user: kubeletClientUser, rules: []rbacv1.PolicyRule{
			rule("", []string{"nodes"}, "get", "list", "watch", "proxy"),
			rule("", []string{"nodes/log", "nodes/metrics", "nodes/proxy", "nodes/stats"}, "*"),
		}},
		// As in deploy/manifests/agent-rbac.yaml.
		{name: "pinfold:local-agent", user: agentUser, rules: []rbacv1.PolicyRule{
			rule("", []string{"nodes"}, "get"),
			rule("", []string{"nodes/configz"}, "get"),
			rule("", []string{"nodes/status"}, "patch"),
			rule("", []string{"pods"}, "list", "watch"),
			rule("", []string{"events"}, "create", "patch"),
			rule("topology.node.k8s.io", []string{"noderesourcetopologies"}, "get", "create", "update", "delete"),
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
	for _, g := range grants() {
		meta := metav1.ObjectMeta{Name: g.name}
		role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: g.rules}
		if _, err := client.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create role %s: %w", g.name, err)
		}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: meta,
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: g.name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: g.user}},
		}
		if _, err := client.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("bind role %s: %w", g.name, err)
		}
	}
	return nil
}
