package localcluster

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/kube/admission"
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

//go:embed rbac.yaml
var everyCluster []byte

//go:embed rbac-agents.yaml
var simulatedAgents []byte

// createGrants grants the components the rights of grants.
func createGrants(ctx context.Context, admin *rest.Config, stock bool) error {
	client, err := dynamic.NewForConfig(admin)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	all, err := grants(stock)
	if err != nil {
		return err
	}
	return localnode.CreateAll(ctx, client, all)
}

// grants returns the roles that built-in roles do not contain, and their bindings. Unless the
// cluster is stock, they include those of Pinfold, and the namespace of the agents' leases.
func grants(stock bool) ([]*unstructured.Unstructured, error) {
	all, err := localnode.Decode(everyCluster)
	if err != nil || stock {
		return all, err
	}
	simulated, err := localnode.Decode(simulatedAgents)
	if err != nil {
		return nil, err
	}
	agent, err := grantsOf(deploy.Agent, rbacv1.GroupKind, admission.AgentGroup)
	if err != nil {
		return nil, err
	}
	scheduler, err := grantsOf(deploy.DefaultScheduler, rbacv1.UserKind, schedulerUser)
	return slices.Concat(all, agent, scheduler, simulated), err
}

// grantsOf returns the namespace and the roles of a manifest, bound to another subject. The roles have
// names of their own, so that the manifest can be applied, too.
func grantsOf(manifest []byte, kind, name string) (all []*unstructured.Unstructured, err error) {
	objects, err := localnode.Decode(manifest)
	if err != nil {
		return nil, fmt.Errorf("read the roles of %s: %w", name, err)
	}
	for _, object := range objects {
		switch object.GetKind() {
		case "ClusterRoleBinding", "RoleBinding":
			object.Object["subjects"] = []any{map[string]any{"apiGroup": rbacv1.GroupName, "kind": kind, "name": name}}
			role, _, err := unstructured.NestedString(object.Object, "roleRef", "name")
			if err == nil {
				err = unstructured.SetNestedField(object.Object, localName(role), "roleRef", "name")
			}
			if err != nil {
				return nil, fmt.Errorf("read the roles of %s: %w", name, err)
			}
			object.SetName(localName(object.GetName()))
		case "ClusterRole", "Role":
			object.SetName(localName(object.GetName()))
		case "Namespace":
		default:
			continue
		}
		object.SetLabels(nil) // which say that the manifest was applied
		all = append(all, object)
	}
	return all, nil
}

// localName renames a role of Pinfold.
func localName(role string) string { return strings.Replace(role, "pinfold:", "pinfold:local-", 1) }
