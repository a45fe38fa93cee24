package localcluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	typedrbacv1 "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// The users of the components. The API server itself creates roles and bindings for those of the
// scheduler and the controller manager.
const (
	adminUser             = "pinfold-local-admin"
	adminGroup            = "system:masters"
	schedulerUser         = "system:kube-scheduler"
	controllerManagerUser = "system:kube-controller-manager"
	kwokUser              = "pinfold:kwok"
	kubeletClientUser     = "pinfold:kube-apiserver-kubelet-client"
)

// grant is a role that is bound to one user or one group.
type grant struct {
	name        string
	user, group string // one of them
	namespace   string // "": a cluster role
	rules       []rbacv1.PolicyRule
}

// stockGrants returns what every cluster needs.
func stockGrants() []grant {
	return []grant{
		// The API server's requests to the kubelet of a real node, as in the built-in role
		// system:kubelet-api-admin.
		{name: "pinfold:kubelet-api", user: kubeletClientUser, rules: []rbacv1.PolicyRule{
			rule("", []string{"nodes"}, "get", "list", "watch", "proxy"),
			rule("", []string{"nodes/log", "nodes/metrics", "nodes/proxy", "nodes/stats"}, "*"),
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

// pinfoldGrants returns the rights of Pinfold's scheduler and agents.
func pinfoldGrants() []grant {
	return []grant{
		// As in deploy/manifests/scheduler-rbac.yaml.
		{name: "pinfold:local-scheduler", user: schedulerUser, rules: []rbacv1.PolicyRule{
			rule("topology.node.k8s.io", []string{"noderesourcetopologies"}, "get", "list", "watch"),
			rule("", []string{"nodes/status"}, "patch"),
		}},
		{name: "pinfold:local-scheduler", user: schedulerUser, namespace: nodetopology.LeaseNamespace, rules: []rbacv1.PolicyRule{
			rule("coordination.k8s.io", []string{"leases"}, "list", "watch"),
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
	}
}

func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// createGrants grants the components the rights that built-in roles do not contain. Unless the cluster
// is stock, it also creates the namespace of the agents' leases.
func createGrants(ctx context.Context, client kubernetes.Interface, stock bool) error {
	grants := stockGrants()
	if !stock {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nodetopology.LeaseNamespace}}
		if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
		}
		grants = append(grants, pinfoldGrants()...)
	}
	for _, g := range grants {
		if err := g.create(ctx, client.RbacV1()); err != nil {
			return fmt.Errorf("grant role %s: %w", g.name, err)
		}
	}
	return nil
}

func (g grant) create(ctx context.Context, client typedrbacv1.RbacV1Interface) error {
	meta := metav1.ObjectMeta{Name: g.name, Namespace: g.namespace}
	role := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: g.name}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: g.user}}
	if g.group != "" {
		subjects[0].Kind, subjects[0].Name = rbacv1.GroupKind, g.group
	}
	var roleErr, bindingErr error
	if g.namespace == "" {
		_, roleErr = client.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: g.rules}, metav1.CreateOptions{})
		_, bindingErr = client.ClusterRoleBindings().Create(ctx,
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: role}, metav1.CreateOptions{})
	} else {
		role.Kind = "Role"
		_, roleErr = client.Roles(g.namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: g.rules}, metav1.CreateOptions{})
		_, bindingErr = client.RoleBindings(g.namespace).Create(ctx,
			&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: role}, metav1.CreateOptions{})
	}
	return errors.Join(roleErr, bindingErr)
}
