package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	topologyclient "github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/generated/clientset/versioned"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"pinfold.dev/pinfold/agent"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/kube/nodetopology"
)

const agentNode = "agent-test"

// applyAgentRights makes what deploy/manifests/agent-rbac.yaml says.
func (c *test) applyAgentRights() {
	c.Helper()
	text, err := os.ReadFile("../../deploy/manifests/agent-rbac.yaml")
	c.must(err)
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		var object unstructured.Unstructured
		if err := documents.Decode(&object); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			c.Fatal(err)
		}
		if object.GetKind() != "ServiceAccount" { // pinfold-local has roles of the same names
			object.SetName(object.GetName() + "-manifest")
		}
		if object.GetKind() == "ClusterRoleBinding" {
			c.must(unstructured.SetNestedField(object.Object, "pinfold:agent-manifest", "roleRef", "name"))
		}
		kind := object.GroupVersionKind()
		kinds := c.objects.Resource(schema.GroupVersionResource{Group: kind.Group, Version: kind.Version, Resource: strings.ToLower(kind.Kind) + "s"})
		if object.GetNamespace() != "" {
			_, err = kinds.Namespace(object.GetNamespace()).Create(c.Context(), &object, metav1.CreateOptions{})
		} else {
			_, err = kinds.Create(c.Context(), &object, metav1.CreateOptions{})
		}
		c.must(err)
	}
}

// agentConfig is a client's with the service account's token only.
func (c *test) agentConfig() *rest.Config {
	c.Helper()
	token, err := c.client.CoreV1().ServiceAccounts("kube-system").CreateToken(c.Context(), "pinfold-agent", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	c.must(err)
	config := rest.AnonymousClientConfig(c.config)
	config.BearerToken = token.Status.Token
	return config
}

// TestAgentRights runs the agent on a node of its own with the rights of the manifest. This
// machine has no pods of that node: the agent says so, which needs every right but that
// to the kubelet's configuration.
func TestAgentRights(t *testing.T) {
	c := begin(t)
	c.applyAgentRights()
	config := c.agentConfig()
	client, err := kubernetes.NewForConfig(config)
	c.must(err)
	topologies, err := topologyclient.NewForConfig(config)
	c.must(err)
	_, err = c.client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: agentNode},
		Spec: corev1.NodeSpec{Unschedulable: true}}, metav1.CreateOptions{})
	c.must(err)
	c.Cleanup(func() {
		if err := c.client.CoreV1().Nodes().Delete(context.Background(), agentNode, metav1.DeleteOptions{}); err != nil {
			c.Error(err)
		}
	})
	var log bytes.Buffer
	options := agent.Options{Config: control.Config{NodeName: agentNode}, RunDir: t.TempDir(), Client: client, Topologies: topologies,
		Kubelet: func(context.Context) (control.Kubelet, error) {
			return control.Kubelet{CPUManagerPolicy: "none", CgroupRoot: "/pinfold-has-no-such-group"}, nil
		},
		APIEvery: time.Second, RetryAfter: 100 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))}
	stop := c.runAgent(options)
	c.agentReports()
	stop()
	if strings.Contains(log.String(), "forbidden") {
		t.Errorf("the agent lacks a right:\n%s", log.String())
	}
	// Giving back fails on the groups that this machine does not have, and goes on.
	if _, err := agent.Cleanup(t.Context(), options); err == nil || apierrors.IsForbidden(err) {
		t.Errorf("cleanup: %v", err)
	}
	if _, err := c.topologies.TopologyV1alpha2().NodeResourceTopologies().Get(t.Context(), agentNode, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the cleanup: %v", err)
	}
	c.agentMayNot(client)
}

// runAgent runs an agent until stop.
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

// agentReports waits for all that the agent writes about the node.
func (c *test) agentReports() {
	c.Helper()
	c.eventually(func() string {
		object, err := c.topologies.TopologyV1alpha2().NodeResourceTopologies().Get(c.Context(), agentNode, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		if _, _, err := nodetopology.ToMachine(object); err != nil {
			return err.Error()
		}
		node, err := c.client.CoreV1().Nodes().Get(c.Context(), agentNode, metav1.GetOptions{})
		if err != nil {
			return err.Error()
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == control.ConditionType && condition.Reason == control.CannotEnforce {
				return ""
			}
		}
		return fmt.Sprintf("the node's conditions are %+v", node.Status.Conditions)
	})
	c.eventually(func() string {
		events, err := c.client.CoreV1().Events("default").List(c.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=" + agentNode})
		if err != nil {
			return err.Error()
		}
		for _, e := range events.Items {
			if e.Reason == control.CannotEnforce {
				return ""
			}
		}
		return fmt.Sprintf("no event among %d", len(events.Items))
	})
}

// agentMayNot asks the API server about rights.
func (c *test) agentMayNot(client kubernetes.Interface) {
	c.Helper()
	for _, ask := range []struct {
		verb, group, resource, subresource string
		want                               bool
	}{
		{"get", "", "nodes", "configz", true},
		{"get", "", "nodes", "proxy", false},
		{"list", "", "nodes", "", false},
		{"patch", "", "nodes", "", false},
		{"get", "", "pods", "", false},
		{"patch", "", "pods", "", false},
		{"delete", "", "pods", "", false},
		{"get", "", "secrets", "", false},
		{"list", "topology.node.k8s.io", "noderesourcetopologies", "", false},
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
