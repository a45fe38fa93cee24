package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/status"
	"pinfold.dev/pinfold/deploy"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler/agents"
	"pinfold.dev/pinfold/linux/cgroup/cgrouptest"
	"pinfold.dev/pinfold/test/logtext"
)

const agentNode = "agent-test"

// applyAgentRights creates the service account of the agent's manifest, and its roles and bindings.
func (c *test) applyAgentRights() {
	c.Helper()
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(deploy.Agent), 4096)
	for {
		var object unstructured.Unstructured
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			c.Fatal(err)
		}
		kind := object.GroupVersionKind()
		if kind.Kind != "ServiceAccount" && kind.Group != rbacv1.GroupName {
			continue
		}
		var objects dynamic.ResourceInterface
		kinds := c.objects.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: strings.ToLower(kind.Kind) + "s"})
		if objects = kinds; object.GetNamespace() != "" {
			objects = kinds.Namespace(object.GetNamespace())
		}
		if _, err := objects.Create(c.Context(), &object, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) { // created by an earlier test
			c.must(err)
		}
	}
}

// agentConfig returns a client configuration with a token of the agent's service account. The token
// is bound to a node, as those of a DaemonSet's pods are.
func (c *test) agentConfig(node *corev1.Node) *rest.Config {
	c.Helper()
	request := &authenticationv1.TokenRequest{}
	if node != nil {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	}
	token, err := c.client.CoreV1().ServiceAccounts(nodetopology.LeaseNamespace).CreateToken(c.Context(), admission.AgentAccount, request, metav1.CreateOptions{})
	c.must(err)
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token.Status.Token
	return config
}

// createNode creates a node without a kubelet and deletes it when the test ends.
func (c *test) createNode(node *corev1.Node) *corev1.Node {
	c.Helper()
	made, err := c.client.CoreV1().Nodes().Create(c.Context(), node, metav1.CreateOptions{})
	c.must(err)
	c.Cleanup(func() {
		if err := c.client.CoreV1().Nodes().Delete(context.Background(), node.Name, metav1.DeleteOptions{}); err != nil {
			c.Error(err)
		}
	})
	return made
}

// createReadyNode creates a node that takes pods, whose kubelet is the test.
func (c *test) createReadyNode(name string) *corev1.Node {
	c.Helper()
	node := c.createNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}})
	status := `{"status":{"capacity":CPUS,"allocatable":CPUS,"conditions":[{"type":"Ready","status":"True","reason":"Test"}]}}`
	status = strings.ReplaceAll(status, "CPUS", `{"cpu":"8","memory":"8Gi","pods":"110"}`)
	// A patch, because controllers write new nodes at the same time.
	_, err := c.client.CoreV1().Nodes().PatchStatus(c.Context(), name, []byte(status))
	c.must(err)
	return node
}

// TestAgentRights runs the agent on its own node with the permissions of the manifest. This machine
// has no pods of that node. The agent reports that, which needs every permission except the one for
// the kubelet's configuration.
func TestAgentRights(t *testing.T) {
	c := begin(t)
	c.applyAgentRights()
	node := c.createNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: agentNode}, Spec: corev1.NodeSpec{Unschedulable: true}})
	own := c.as(c.agentConfig(node))
	var log logtext.Log
	options := agent.Options{Config: control.Config{NodeName: agentNode}, RunDir: t.TempDir(), Client: own.client, Topologies: own.topologies,
		Listen: "127.0.0.1:0", Secure: &agent.Secure{Reviews: own.client},
		Kubelet: func(context.Context) (control.Kubelet, error) {
			return control.Kubelet{CPUManagerPolicy: "none", CgroupRoot: "/pinfold-has-no-such-group"}, nil
		},
		LeaseNamespace: nodetopology.LeaseNamespace, LeaseEvery: time.Second,
		APIEvery: time.Second, RetryAfter: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))}
	stop := c.runAgent(options)
	c.agentReports()
	c.eventually("the agent's lease", func() error {
		_, err := c.client.CoordinationV1().Leases(nodetopology.LeaseNamespace).Get(t.Context(), agentNode, metav1.GetOptions{})
		return err
	})
	listens := regexp.MustCompile(`the agent runs.* metrics=(\S+)`).FindStringSubmatch(log.String())
	if listens == nil {
		t.Fatalf("the agent does not say where it serves metrics:\n%s", log.String())
	}
	c.metricsAreGuarded(listens[1])
	stop()
	if strings.Contains(log.String(), "forbidden") {
		t.Errorf("the agent lacks a permission:\n%s", log.String())
	}
	// The cleanup after an agent that was killed fails for cgroups that this machine does not have, and
	// continues.
	c.must(os.Remove(filepath.Join(options.RunDir, "untouched")))
	if _, err := agent.Cleanup(t.Context(), options); err == nil || apierrors.IsForbidden(err) {
		t.Errorf("cleanup: %v", err)
	}
	if _, err := c.topologies.Get(t.Context(), agentNode, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the cleanup: %v", err)
	}
	c.agentMayNot(own.client)
	c.agentKeepsToItsNode(own)
	c.agentKeepsToItsNode(c.as(c.agentConfig(nil)))

	// An agent outside the cluster has a certificate instead of a token.
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: admission.AgentUser(agentNode), Groups: []string{admission.AgentGroup, "system:authenticated"}}
	outside := c.as(config)
	c.agentKeepsToItsNode(outside)
	leases := outside.client.CoordinationV1().Leases(nodetopology.LeaseNamespace)
	_, err := leases.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: agentNode}}, metav1.CreateOptions{})
	c.must(err)
	c.must(leases.Delete(t.Context(), agentNode, metav1.DeleteOptions{}))
}

// agentKeepsToItsNode tries to write with a token of another node, and with one of no node.
func (c *test) agentKeepsToItsNode(other *running) {
	c.Helper()
	objects := other.topologies
	leases := other.client.CoordinationV1().Leases(nodetopology.LeaseNamespace)
	theirs := c.topology(small0)
	lie := []byte(`{"status":{"conditions":[{"type":"PinfoldCPUBinding","status":"True","reason":"Lie"}]}}`)
	for what, try := range map[string]func() error{
		"patch a Node's status": func() error {
			_, err := other.client.CoreV1().Nodes().PatchStatus(c.Context(), small0, lie)
			return err
		},
		"update a topology": func() error {
			_, err := objects.Update(c.Context(), theirs, metav1.UpdateOptions{})
			return err
		},
		"delete a topology": func() error { return objects.Delete(c.Context(), small0, metav1.DeleteOptions{}) },
		"create a topology": func() error {
			made := theirs.DeepCopy()
			made.Name, made.ResourceVersion, made.UID = "other", "", ""
			_, err := objects.Create(c.Context(), made, metav1.CreateOptions{})
			return err
		},
		"create a lease": func() error {
			_, err := leases.Create(c.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: small0}}, metav1.CreateOptions{})
			return err
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "node only") {
			c.Errorf("an agent of another node may %s: %v", what, err)
		}
	}
}

// runAgent runs an agent until stop is called.
func (c *test) runAgent(options agent.Options) (stop func()) {
	ctx, cancel := context.WithCancel(c.Context())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx, options) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			c.Error(err)
		}
	}
	c.Cleanup(stop)
	return stop
}

// agentReports waits for everything that the agent writes about the node.
func (c *test) agentReports() {
	c.Helper()
	c.eventually("the agent reports", func() error {
		object, err := c.topologies.Get(c.Context(), agentNode, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if _, _, err := nodetopology.ToMachine(object); err != nil {
			return err
		}
		return c.hasCondition(agentNode, corev1.ConditionFalse, groups.CannotEnforce)
	})
	c.eventOf(metav1.NamespaceDefault, agentNode, groups.CannotEnforce, "") // where events of nodes are
}

// agentMayNot checks that the API server denies permissions.
func (c *test) agentMayNot(client kubernetes.Interface) {
	c.Helper()
	for _, ask := range []struct {
		verb, group, resource, subresource string
		want                               bool
	}{
		{"get", "", "nodes", "configz", true},
		{"get", "", "nodes", "pods", true},
		{"get", "", "nodes", "proxy", false},
		{"create", "authentication.k8s.io", "tokenreviews", "", true},
		{"create", "authorization.k8s.io", "subjectaccessreviews", "", true},
		{"list", "", "nodes", "", false},
		{"patch", "", "nodes", "", false},
		{"get", "", "pods", "", false},
		{"patch", "", "pods", "", false},
		{"delete", "", "pods", "", false},
		{"get", "", "secrets", "", false},
		{"list", nodetopology.GroupVersion.Group, nodetopology.Resource, "", false},
	} {
		review, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(c.Context(), &authorizationv1.SelfSubjectAccessReview{
			Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
				Verb: ask.verb, Group: ask.group, Resource: ask.resource, Subresource: ask.subresource}}}, metav1.CreateOptions{})
		c.must(err)
		if review.Status.Allowed != ask.want {
			c.Errorf("%+v: allowed %v", ask, review.Status.Allowed)
		}
	}
}

// TestSilentAgent: a node whose agent has stopped accepts no pod that asks for CPUs, and its
// condition becomes Unknown. When the agent continues, both are as before.
func TestSilentAgent(t *testing.T) {
	c := begin(t)
	c.applyAgentRights()
	const name = "agent-alive"
	own := c.as(c.agentConfig(c.createReadyNode(name)))
	options := agent.Options{Config: control.Config{NodeName: name}, Root: cgrouptest.NewFiles(t).Root, RunDir: t.TempDir(), Client: own.client, Topologies: own.topologies,
		Kubelet: func(context.Context) (control.Kubelet, error) { return control.Kubelet{CPUManagerPolicy: "none"}, nil },
		Period:  time.Second, APIEvery: time.Second, RetryAfter: 100 * time.Millisecond, LeaseNamespace: nodetopology.LeaseNamespace,
		LeaseEvery: time.Second, Version: "v1.2.3", Log: slog.New(slog.DiscardHandler)}
	pod := func(pod string) string {
		return `
metadata: {name: ` + pod + `, annotations: {cpuset-scheduler: "true"}}
spec:
  nodeSelector: {kubernetes.io/hostname: ` + name + `}
  tolerations: [{operator: Exists}]
  containers: [{name: app, image: app, resources: {limits: {cpu: 1}}}]
`
	}
	stop := c.runAgent(options)
	c.create(pod("first"))
	c.bound("first")
	c.nodeCondition(name, corev1.ConditionTrue, "Enforced")

	stop()
	c.nodeCondition(name, corev1.ConditionUnknown, agents.SilentReason)
	c.agentIs(name, status.AgentSilent)
	c.create(pod("second"))
	c.waits("second", "has a Pinfold agent that has not reported (for ")

	c.runAgent(options)
	c.bound("second")
	c.nodeCondition(name, corev1.ConditionTrue, "Enforced")
	c.agentIs(name, status.AgentReports)
}

// nodeCondition waits for the condition that the agent writes, or the scheduler 20 s after the agent
// has stopped.
func (c *test) nodeCondition(node string, status corev1.ConditionStatus, reason string) {
	c.Helper()
	c.eventually("the condition of the agent", func() error { return c.hasCondition(node, status, reason) })
}

func (c *test) hasCondition(node string, status corev1.ConditionStatus, reason string) error {
	object, err := c.client.CoreV1().Nodes().Get(c.Context(), node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if have := api.Condition(object, nodetopology.BindingCondition); have.Status != status || have.Reason != reason {
		return fmt.Errorf("the condition is %+v; want %s %s", have, status, reason)
	}
	return nil
}
