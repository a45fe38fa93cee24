package main

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/local/simnode"
)

// workloadSeed generates the pods. Results from before and after a change of the seed, or of
// anything else in this file, cannot be compared.
const workloadSeed = 20261120

// machineKind is a shape of nodes and how many of every ten nodes have it.
type machineKind struct {
	name  string
	shape topology.Shape
	of10  int
}

func machineKinds() []machineKind {
	return []machineKind{
		{"intel-104", topology.Intel104(), 3},
		{"amd-256", topology.AMD256(), 3},
		{"intel-64", topology.Shape{Packages: 2, CoresPerLLC: 16, ThreadsPerCore: 2}, 2},
		{"amd-64", topology.Shape{LLCsPerNUMA: 4, CoresPerLLC: 8, ThreadsPerCore: 2}, 1},
		{"arm-128", topology.Shape{Packages: 2, NUMAPerPackage: 2, CoresPerLLC: 32}, 1},
	}
}

// makeNodes returns nodes of all kinds, mixed. The first core of every node is reserved.
func makeNodes(count int) []simnode.Node {
	var ten []simnode.Node
	for _, kind := range machineKinds() {
		machine := kind.shape.MustBuild()
		for range kind.of10 {
			ten = append(ten, simnode.Node{Name: kind.name, Machine: machine, ReservedCPUs: firstCore(machine)})
		}
	}
	nodes := make([]simnode.Node, count)
	for i := range nodes {
		nodes[i] = ten[i%len(ten)]
		nodes[i].Name = fmt.Sprintf("n%04d-%s", i, nodes[i].Name)
	}
	return nodes
}

func firstCore(m *topology.Machine) cpuset.Set { return m.Cores()[0].CPUs }

// limitWeights returns the pods' limits, in CPUs, and how many of 20 pods have them.
func limitWeights() []struct{ cpus, of20 int } {
	return []struct{ cpus, of20 int }{{1, 2}, {2, 5}, {4, 6}, {8, 4}, {16, 2}, {32, 1}}
}

// makePods returns pods of all sizes and both policies in random order. Their names sort in the
// order of the slice. Consecutive pods differ in limit or request: otherwise kube-scheduler would
// reuse most results of the previous pod, and more often without the plugin, where policies do not
// differ.
func makePods(count int, annotated bool) []*corev1.Pod {
	rng := rand.New(rand.NewPCG(workloadSeed, 0))
	var limits []int
	for _, weight := range limitWeights() {
		for range weight.of20 {
			limits = append(limits, weight.cpus)
		}
	}
	pods := make([]*corev1.Pod, count)
	var limit int
	var milliRequest int64
	for i := range pods {
		for last, lastRequest := limit, milliRequest; limit == last && milliRequest == lastRequest; {
			limit = limits[rng.IntN(len(limits))]
			// Half of the pods request less than they may use, as most do.
			milliRequest = int64(limit) * []int64{1000, 500}[rng.IntN(2)]
		}
		policy := []placement.Policy{placement.Static, placement.StaticBurst}[rng.IntN(2)]
		pods[i] = makePod(fmt.Sprintf("pod-%05d", i), limit, milliRequest)
		if annotated {
			pods[i].Annotations = map[string]string{
				api.CPUSetSchedulerAnnotation: "true",
				api.CPUPolicyAnnotation:       string(policy),
			}
		}
	}
	return pods
}

func makePod(name string, limit int, milliRequest int64) *corev1.Pod {
	memory := *resource.NewQuantity(int64(limit)<<26, resource.BinarySI) // 64 MiB a CPU
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name:  "main",
				Image: "registry.example/bench",
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{
						corev1.ResourceCPU:    *resource.NewMilliQuantity(milliRequest, resource.DecimalSI),
						corev1.ResourceMemory: memory,
					},
					Limits: corev1.ResourceList{
						corev1.ResourceCPU:    *resource.NewQuantity(int64(limit), resource.DecimalSI),
						corev1.ResourceMemory: memory,
					},
				},
			}},
		},
	}
}
