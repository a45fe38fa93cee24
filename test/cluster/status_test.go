package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/kube/nodetopology"
)

func nodeOf(c *test, report status.Report, name string) *status.Node {
	c.Helper()
	i := slices.IndexFunc(report.Nodes, func(n status.Node) bool { return n.Name == name })
	if i < 0 {
		c.Fatalf("no node %s among %d", name, len(report.Nodes))
	}
	return &report.Nodes[i]
}

// agentIs compares the state of an agent in "pinfold status" with that which the scheduler has
// found, and checks its version. While it is silent, that is the only problem of the node: a test has no
// container runtime, which is a warning.
func (c *test) agentIs(node string, want status.AgentState) {
	c.Helper()
	report, _ := c.status(c.kubeconfig(), node)
	silent := len(problemsOf(report, status.AgentIsSilent))
	if got := report.Nodes[0].Agent; got.State != want || got.Version != "v1.2.3" || len(report.Of(status.Error)) != silent || (silent == 1) != (want == status.AgentSilent) {
		c.Errorf("the agent of %s is %+v, want %s; problems %+v", node, got, want, report.Problems)
	}
}

// TestStatusRights reads a cluster with the rights of the manifests' role pinfold:status, with some
// of them, without any and without a valid token.
func TestStatusRights(t *testing.T) {
	c := begin(t)
	var all, few rbacv1.ClusterRole
	for document := range strings.SplitSeq(string(deploy.Agent), "\n---\n") {
		if strings.Contains(document, "\n  name: pinfold:status\n") {
			c.must(yaml.UnmarshalStrict([]byte(document), &all))
		}
	}
	few.Name, few.Rules = "status-few", []rbacv1.PolicyRule{all.Rules[1], {APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}}
	all.Name, all.Labels = "status-all", nil
	c.createRole(&all)
	c.createRole(&few)
	reader, limited, none := c.kubeconfigOf(c.tokenOf("status-all", all.Name)), c.kubeconfigOf(c.tokenOf("status-few", few.Name)), c.kubeconfigOf(c.tokenOf("status-none", ""))
	unread := func(report status.Report) (resources []string) {
		for _, u := range report.Unread {
			resources = append(resources, u.Resource)
		}
		return resources
	}
	c.eventually("new permissions are effective", func() error {
		if report, _ := c.status(reader); len(report.Unread) > 0 || len(report.Problems) > 0 {
			return fmt.Errorf("with all rights: not read %q, problems %+v", unread(report), report.Problems)
		}
		report, _ := c.status(limited)
		if got := unread(report); !slices.Equal(got, []string{"leases", "pods"}) {
			return fmt.Errorf("with few rights, not read: %q", got)
		}
		return nil
	})
	report, exit := c.status(limited, "--check")
	if n := nodeOf(c, report, small0); exit != 1 || n.Topology != status.TopologyUsable || n.CPUs != nil || n.Pods != nil || n.Agent.State != status.AgentUnknown {
		t.Errorf("with few rights: exit status %d, node %+v", exit, n)
	}
	if out, messages, exit := c.pinfold(none, "status"); exit != 0 || strings.Count(out, "is forbidden") != 4 {
		t.Errorf("without rights: exit status %d, %s%s", exit, out, messages)
	}
	_, messages, exit := c.pinfold(c.kubeconfig(), "status", "p1n1l1c4t2-7")
	if want := `node "p1n1l1c4t2-7": no such node: did you mean ` + small0 + ", " + small1 + "?"; exit != 1 || !strings.Contains(messages, want) {
		t.Errorf("exit status %d: %s, want %s", exit, messages, want)
	}
	if _, messages, exit := c.pinfold(c.kubeconfigOf("x"), "status"); exit != 1 || !strings.Contains(messages, "rejects the credentials") {
		t.Errorf("without a valid token: exit status %d, %s", exit, messages)
	}
}

// testNoDefinition: in a cluster without the kind NodeTopology, a scheduler that starts schedules the
// pods that do not ask. Status says that Pinfold is not installed. This cluster is of no use afterwards.
func testNoDefinition(t *testing.T) {
	c := begin(t)
	kinds := c.objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
	c.must(kinds.Delete(t.Context(), "nodetopologies.pinfold.dev", metav1.DeleteOptions{}))
	c.eventually("status says that Pinfold is not installed", func() error {
		_, messages, exit := c.pinfold(c.kubeconfig(), "status")
		if want := "so Pinfold is not installed in it: docs/operations.md says how to install it"; exit != 1 || !strings.Contains(messages, want) {
			return errors.New(messages)
		}
		return nil
	})
	c.killScheduler()
	c.create("metadata: {name: plain}\nspec: {containers: [{name: app, image: app, resources: {requests: {cpu: 1}}}]}\n")
	c.create("metadata: {name: asks, annotations: {cpuset-scheduler: 'true'}}\nspec: {containers: [{name: app, image: app, resources: {limits: {cpu: 2}}}]}\n")
	c.bound("plain")
	c.waits("asks", nodetopology.ErrNoDefinition.Error())
}
