package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/kube/api"
)

func TestPodsAreReproducible(t *testing.T) {
	annotated, plain := makePods(2000, true), makePods(2000, false)
	if diff := cmp.Diff(annotated, makePods(2000, true)); diff != "" {
		t.Fatalf("two results differ:\n%s", diff)
	}
	policies, limits := map[string]int{}, map[int64]int{}
	for i, pod := range annotated {
		intent, err := api.Parse(pod)
		if err != nil || !intent.Asks() {
			t.Fatalf("pod %s does not ask: %v", pod.Name, err)
		}
		policies[pod.Annotations[api.CPUPolicyAnnotation]]++
		limits[pod.Spec.Containers[0].Resources.Limits.Cpu().Value()]++
		pod.Annotations = nil
		if diff := cmp.Diff(pod, plain[i]); diff != "" {
			t.Fatalf("without the plugin pod %d differs:\n%s", i, diff)
		}
		if i > 0 && (pod.Name <= annotated[i-1].Name || cmp.Equal(resources(pod), resources(annotated[i-1]))) {
			t.Fatalf("pod %d, %s, does not sort after %s or has the same resources", i, pod.Name, annotated[i-1].Name)
		}
	}
	for policy, n := range policies {
		if n < 900 || n > 1100 {
			t.Errorf("%d of 2,000 pods have policy %s", n, policy)
		}
	}
	if len(policies) != 2 || len(limits) != len(limitWeights()) {
		t.Errorf("policies %v, limits %v", policies, limits)
	}
}

func resources(pod *corev1.Pod) corev1.ResourceRequirements { return pod.Spec.Containers[0].Resources }

func TestNodesAreMixed(t *testing.T) {
	for _, count := range []int{10, 500, 1000} {
		nodes := makeNodes(count)
		names, kinds := map[string]bool{}, map[string]int{}
		for _, node := range nodes {
			names[node.Name] = true
			kinds[node.Name[len("n0000-"):]]++
			if !node.ReservedCPUs.IsSubsetOf(node.Machine.Online()) || node.ReservedCPUs.IsEmpty() {
				t.Errorf("%s reserves CPUs %s", node.Name, node.ReservedCPUs)
			}
		}
		if len(names) != count {
			t.Errorf("%d names for %d nodes", len(names), count)
		}
		for _, kind := range machineKinds() {
			if kinds[kind.name] != kind.of10*count/10 {
				t.Errorf("%d of %d nodes are %s, want %d of 10", kinds[kind.name], count, kind.name, kind.of10)
			}
		}
	}
}
