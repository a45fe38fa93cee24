package chart

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"pinfold.dev/pinfold/kube/api"
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
