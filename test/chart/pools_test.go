package chart

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/wait"
)

// agentSets returns the DaemonSets of the agents.
func agentSets(t *testing.T, manifest string) (sets []*appsv1.DaemonSet) {
	t.Helper()
	for _, object := range documents(t, manifest) {
		if object.GetKind() == "DaemonSet" {
			sets = append(sets, typed(t, object).(*appsv1.DaemonSet))
		}
	}
	if len(sets) == 0 {
		t.Fatalf("no DaemonSet in\n%s", manifest)
	}
	return sets
}

// TestPoolsDoNotOverlap tries all nodes that have some of the labels: each is in exactly one pool.
func TestPoolsDoNotOverlap(t *testing.T) {
	const values = `
agent:
  nodeSelector: {rack: "1"}
  pools:
    a: {}
    b: {nodeSelector: {x: "1", w: "1"}}
    c: {nodeSelector: {x: "1", w: "2"}}
    d: {nodeSelector: {z: "1", x: "2"}, affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
      {matchExpressions: [{key: rack, operator: Exists}]}, {matchExpressions: [{key: none, operator: Exists}]}]}}}}
    e: {nodeSelector: {z: "2"}}
`
	sets := agentSets(t, render(t, values))
	if len(sets) != 6 {
		t.Fatalf("%d DaemonSets", len(sets))
	}
	nodes, seen := labelled(map[string][]string{"kubernetes.io/os": {"linux"}, "rack": {"1"}, api.PoolLabel: {"", "a"},
		"x": {"", "1", "2"}, "w": {"", "1", "2"}, "z": {"", "1", "2"}}), map[string]int{}
	for _, node := range nodes {
		var in []string
		for _, set := range sets {
			pod := &corev1.Pod{Spec: set.Spec.Template.Spec}
			if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil {
				t.Fatal(err)
			} else if ok {
				in = append(in, set.Name)
				seen[set.Name]++
			}
		}
		if len(in) != 1 {
			t.Errorf("a node with %v is in %q", node.Labels, in)
		}
	}
	if len(seen) != len(sets) {
		t.Errorf("%d nodes are in %v: not all pools", len(nodes), seen)
	}
}

// labelled returns nodes with all combinations of the labels' values; "" is no label.
func labelled(labels map[string][]string) []*corev1.Node {
	nodes := []*corev1.Node{{}}
	for key, values := range labels {
		var next []*corev1.Node
		for _, node := range nodes {
			for _, value := range values {
				one := node.DeepCopy()
				if value != "" {
					metav1.SetMetaDataLabel(&one.ObjectMeta, key, value)
				}
				next = append(next, one)
			}
		}
		nodes = next
	}
	return nodes
}

// TestPoolsOnNodes: a release begins to have pools, a node changes its pool, and the pools end. Each
// node always gets one agent.
func TestPoolsOnNodes(t *testing.T) {
	c := begin(t)
	nodes := []string{"pool-a-0", "pool-b-0"}
	at := []string{"--namespace", namespace, "--kubeconfig", c.Kubeconfig()}
	must := func(args ...string) {
		t.Helper()
		if _, err := helm(t, helm4, append(args, at...)...); err != nil {
			t.Fatal(err)
		}
	}
	label := func(node, value string) {
		t.Helper()
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, api.PoolLabel, value)
		if _, err := c.client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := helm(t, helm4, c.install(t, "scheduler: {enabled: false}")...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.uninstall(t, helm4, release, namespace) })
	for _, name := range []string{"pool-a", "pool-b"} {
		c.createNode(t, name)
	}
	c.agentsAre(t, nodes, "pinfold-agent", "pinfold-agent")
	label(nodes[0], "canary")
	must("upgrade", release, chartDir, "--reuse-values", "--set", "agent.pools.canary.image.tag=v2")
	c.agentsAre(t, nodes, "pinfold-agent-canary", "pinfold-agent")
	label(nodes[0], "other")
	label(nodes[1], "canary")
	c.agentsAre(t, nodes, "pinfold-agent", "pinfold-agent-canary")
	must("upgrade", release, chartDir, "--reset-values", "--set", registry+",scheduler.enabled=false")
	c.agentsAre(t, nodes, "pinfold-agent", "pinfold-agent")
}

// agentsAre waits until each node has one ready agent, of these DaemonSets, which the label of all
// agents finds.
func (c controlPlane) agentsAre(t *testing.T, nodes []string, want ...string) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("the agents of %q are %q", nodes, want), func() error {
		got := make([]string, len(nodes))
		pods, err := c.client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=pinfold-agent"})
		if err != nil {
			return err
		}
		for i, node := range nodes {
			var owners []string
			for _, pod := range pods.Items {
				ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue })
				if pod.Spec.NodeName == node && ready && pod.DeletionTimestamp == nil {
					owners = append(owners, pod.OwnerReferences[0].Name)
				}
			}
			got[i] = strings.Join(owners, " ")
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}
