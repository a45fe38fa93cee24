package localcluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	typedrbacv1 "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/local/localnode"
)

// The users of the components. The API server itself creates roles and bindings for those of the
// scheduler and the controller manager.
const (
	adminUser             = "pinfold-local-admin"
	adminGroup            = "system:masters"
	schedulerUser         = "system:kube-scheduler"
	controllerManagerUser = "system:kube-controller-manager"
	kwokUser              = "pinfold:kwok"
	agentsUser            = "pinfold:simulated-agents"
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
func pinfoldGrants() ([]grant, error) {
	simulated := grant{name: "pinfold:simulated-agents", user: agentsUser, rules: []rbacv1.PolicyRule{
		rule("", []string{"nodes", "pods"}, "get", "list", "watch"),
		rule("pinfold.dev", []string{"nodetopologies"}, "get", "list", "watch", "update"),
	}}
	agent, err := manifestGrants(deploy.Agent, grant{name: "pinfold:local-agent", group: admission.AgentGroup})
	if err != nil {
		return nil, err
	}
	scheduler, err := manifestGrants(deploy.DefaultScheduler, grant{name: "pinfold:local-scheduler", user: schedulerUser})
	return append(slices.Concat(agent, scheduler), simulated), err
}

// manifestGrants returns a copy of g for each role that a manifest binds, with the role's namespace
// and rules.
func manifestGrants(manifest []byte, g grant) (grants []grant, err error) {
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(manifest)))
	var roles []rbacv1.Role // a ClusterRole has the same fields, and no namespace
	bound := map[string]bool{}
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var object struct {
			rbacv1.Role `json:",inline"`
			RoleRef     rbacv1.RoleRef `json:"roleRef"` // of a binding
		}
		if err == nil {
			err = yaml.Unmarshal(document, &object)
		}
		if err != nil {
			return nil, fmt.Errorf("read the roles of %s: %w", g.name, err)
		}
		bound[object.RoleRef.Kind+"/"+object.RoleRef.Name] = true
		roles = append(roles, object.Role)
	}
	for _, role := range roles {
		if (role.Kind == "Role" || role.Kind == "ClusterRole") && bound[role.Kind+"/"+role.Name] {
			g.namespace, g.rules = role.Namespace, role.Rules
			grants = append(grants, g)
		}
	}
	return grants, nil
}

func rule(group string, resources []string, verbs ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: resources, Verbs: verbs}
}

// createGrants grants the components the rights that built-in roles do not contain. Unless the
// cluster is stock, it also creates the namespace of the agents' leases.
func createGrants(ctx context.Context, client kubernetes.Interface, stock bool) error {
	grants := stockGrants()
	if !stock {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: nodetopology.LeaseNamespace}}
		if _, err := localnode.Create(ctx, client.CoreV1().Namespaces(), namespace); err != nil {
			return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
		}
		pinfold, err := pinfoldGrants()
		if err != nil {
			return err
		}
		grants = append(grants, pinfold...)
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
		_, roleErr = localnode.Create(ctx, client.ClusterRoles(), &rbacv1.ClusterRole{ObjectMeta: meta, Rules: g.rules})
		_, bindingErr = localnode.Create(ctx, client.ClusterRoleBindings(),
			&rbacv1.ClusterRoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: role})
	} else {
		role.Kind = "Role"
		_, roleErr = localnode.Create(ctx, client.Roles(g.namespace), &rbacv1.Role{ObjectMeta: meta, Rules: g.rules})
		_, bindingErr = localnode.Create(ctx, client.RoleBindings(g.namespace),
			&rbacv1.RoleBinding{ObjectMeta: meta, Subjects: subjects, RoleRef: role})
	}
	return errors.Join(roleErr, bindingErr)
}
