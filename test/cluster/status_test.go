package cluster

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// TestStatus compares what "pinfold status" says with the pods' allocations and with what the
// scheduler says in conditions and events.
func TestStatus(t *testing.T) {
	c := begin(t)
	c.create(asking("exclusive", 3, ""))
	exclusive := c.allocation(c.bound("exclusive")).Containers[0].CPUs
	c.create(`
metadata: {name: confined, annotations: {cpuset-scheduler: "true", cpu-policy: static-burst}}
spec:
  nodeSelector: {kubernetes.io/hostname: ` + small1 + `}
  containers: [{name: app, image: app, resources: {requests: {cpu: 500m}, limits: {cpu: 2}}}]
`)
	c.allocation(c.bound("confined"))
	c.create(asking("waits", 6, ""))
	c.waits("waits", "CPUs")
	c.create(ownPod("elsewhere", small1, 1))

	report, exit := c.status(c.kubeconfig(), "--check")
	if exit != 0 || len(report.Problems) > 0 || len(report.Unread) > 0 {
		t.Errorf("exit status %d, problems %+v, unread %+v", exit, report.Problems, report.Unread)
	}
	if age := time.Since(report.Time); age < -5*time.Second || age > 30*time.Second {
		t.Errorf("the report is of %v, %v ago", report.Time, age)
	}
	c.schedulerLeads(report)
	c.cpusAre(report, small0, status.CPUs{Online: 8, Exclusive: 3, Shared: 5, SharedRequests: 0})
	c.cpusAre(report, small1, status.CPUs{Online: 8, Shared: 8, Confined: 2, SharedRequests: 0.5})
	if got := nodeOf(c, report, small0).Containers; len(got) != 1 || got[0].Pod != c.home+"/exclusive" || got[0].CPUs != exclusive ||
		got[0].Policy != placement.Static || got[0].Limit != 3 {
		t.Errorf("containers of %s: %+v, want CPUs %s", small0, got, exclusive)
	}
	waiting := map[string]status.Waiting{}
	for _, w := range report.Waiting {
		waiting[w.Pod] = w
	}
	if got := waiting[c.home+"/waits"]; len(waiting) != 2 || got.Message != waitsFor(c.pod("waits")) || got.CPUs != 6 {
		t.Errorf("waiting: %+v, want the message %q", waiting, waitsFor(c.pod("waits")))
	}
	if got := waiting[c.home+"/elsewhere"]; got.Scheduler != ownName || got.Reason != "" {
		t.Errorf("a pod of a scheduler that does not exist waits for %+v", got)
	}

	c.statusOfNeverPlaced()
	c.statusOfNode(exclusive)
}

// schedulerLeads checks the cluster's scheduler in a report.
func (c *test) schedulerLeads(report status.Report) {
	c.Helper()
	lease, err := c.client.CoordinationV1().Leases("kube-system").Get(c.Context(), "kube-scheduler", metav1.GetOptions{})
	c.must(err)
	out, _, _ := c.execute(exec.CommandContext(c.Context(), c.binary, "--version"))
	if len(report.Schedulers) != 1 {
		c.Fatalf("schedulers %+v, want the cluster's", report.Schedulers)
	}
	s := report.Schedulers[0]
	if s.Lease != "kube-system/kube-scheduler" || s.State != status.Leading || s.Holder != *lease.Spec.HolderIdentity ||
		!strings.HasPrefix(out, "pinfold-local "+s.Version) || s.Version == "" || s.Kubernetes != c.kubernetes() || s.RenewalAge > s.Duration {
		c.Errorf("scheduler %+v; its lease is held by %s, its version is that of %s, and the API server is %s", s, *lease.Spec.HolderIdentity, out, c.kubernetes())
	}
}

func nodeOf(c *test, report status.Report, name string) *status.Node {
	c.Helper()
	i := slices.IndexFunc(report.Nodes, func(n status.Node) bool { return n.Name == name })
	if i < 0 {
		c.Fatalf("no node %s among %d", name, len(report.Nodes))
	}
	return &report.Nodes[i]
}

func (c *test) cpusAre(report status.Report, node string, want status.CPUs) {
	c.Helper()
	if got := nodeOf(c, report, node).CPUs; got == nil || *got != want {
		c.Errorf("node %s has %+v, want %+v", node, got, want)
	}
}

// statusOfNeverPlaced has two pods that the scheduler refuses for good.
func (c *test) statusOfNeverPlaced() {
	c.Helper()
	c.create(`
metadata: {name: wrong, annotations: {cpuset-scheduler: "true", cpu-policy: dynamic}}
spec: {containers: [{name: app, image: app, resources: {limits: {cpu: 1}}}]}
`)
	c.create(`
metadata: {name: huge, annotations: {cpuset-scheduler: "true"}}
spec: {containers: [{name: app, image: app, resources: {requests: {cpu: 1}, limits: {cpu: 257}}}]}
`)
	c.waits("wrong", "cpu-policy")
	c.waits("huge", "more than the largest machine has")
	report, exit := c.status(c.kubeconfig(), "--check")
	never := problemsOf(report, status.NeverPlaced)
	if exit != 3 || len(report.Problems) != 2 || len(never) != 2 || never[0].Pod != c.home+"/huge" || never[1].Pod != c.home+"/wrong" {
		c.Errorf("exit status %d, problems %+v", exit, report.Problems)
	}
	for _, name := range []string{"wrong", "huge"} {
		c.must(c.podAPI().Delete(c.Context(), name, *metav1.NewDeleteOptions(0)))
	}
}

// statusOfNode shows one node as a map, and a node that does not exist.
func (c *test) statusOfNode(exclusive cpuset.Set) {
	c.Helper()
	out, messages, exit := c.pinfold(c.kubeconfig(), "status", small0)
	for _, want := range []string{"Node       " + small0 + ", ready", "A " + c.home + "/exclusive  3 CPUs: " + exclusive.String(), "┌ Package 0"} {
		if exit != 0 || !strings.Contains(out, want) {
			c.Errorf("exit status %d %s, %q is missing in\n%s", exit, messages, want, out)
		}
	}
	if strings.Contains(out, small1) {
		c.Errorf("the status of %s is also about %s:\n%s", small0, small1, out)
	}
	_, messages, exit = c.pinfold(c.kubeconfig(), "status", "p1n1l1c4t2-7")
	if want := `node "p1n1l1c4t2-7": no such node: did you mean ` + small0 + ", " + small1 + "?"; exit != 1 || !strings.Contains(messages, want) {
		c.Errorf("exit status %d: %s, want %s", exit, messages, want)
	}
}

// agentIs compares the state of an agent in "pinfold status" with that which the scheduler has
// found, and checks its version. While it is silent, that is the only problem of the node.
func (c *test) agentIs(node string, want status.AgentState) {
	c.Helper()
	report, _ := c.status(c.kubeconfig(), node)
	silent := len(problemsOf(report, status.AgentIsSilent))
	if got := report.Nodes[0].Agent; got.State != want || got.Version != "v1.2.3" || len(report.Problems) != silent || (silent == 1) != (want == status.AgentSilent) {
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
		if want := "so Pinfold is not installed in it: docs/scheduler.md says how to install it"; exit != 1 || !strings.Contains(messages, want) {
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
