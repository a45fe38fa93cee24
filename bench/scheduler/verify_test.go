package main

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/survey"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/test/must"
)

// objectsOf returns a cluster with these pods and one node: 8 CPUs in two NUMA nodes, CPU 0
// reserved.
func objectsOf(t *testing.T, pods ...*corev1.Pod) *survey.Objects {
	t.Helper()
	machine := topology.Shape{NUMAPerPackage: 2, CoresPerLLC: 4}.MustBuild()
	node := simnode.Node{Name: "n1", Machine: machine, ReservedCPUs: firstCore(machine)}
	state := nodetopology.State{ReservedCPUs: node.ReservedCPUs, KubeletPolicy: nodetopology.KubeletPolicyNone, AgentHealth: nodetopology.AgentHealthy,
		Allocations: api.Allocations{}}
	for _, pod := range pods {
		if text, allocated := pod.Annotations[allocatedKey]; allocated {
			state.Allocations[pod.UID] = must.Get(api.DecodeAllocation(text))(t)
		}
	}
	object := must.Get(nodetopology.FromMachine("n1", machine, state))(t)
	return &survey.Objects{Nodes: []*corev1.Node{node.Object()}, Pods: pods,
		Topologies: []survey.Topology{{Name: "n1", Decoded: nodetopology.NewDecoder().Decode(object)}}}
}

// allocatedKey is the key under which pods of tests have their allocation.
const allocatedKey = "allocation"

// boundPod returns a bound pod with a limit of two CPUs and, unless it is "", this allocation.
func boundPod(name string, policy placement.Policy, allocation string) *corev1.Pod {
	pod := makePod(name, 2, 1000)
	pod.UID, pod.Spec.NodeName = types.UID(name), "n1"
	pod.Annotations = map[string]string{api.CPUSetSchedulerAnnotation: "true", api.CPUPolicyAnnotation: string(policy)}
	if allocation != "" {
		pod.Annotations[allocatedKey] = allocation
	}
	return pod
}

func static(name, cpus string) *corev1.Pod {
	return boundPod(name, placement.Static, fmt.Sprintf(
		`{"version":1,"node":"n1","policy":"static","containers":[{"name":"main","cpus":%q,"numaNodes":[0]}]}`, cpus))
}

func burst(name string, numa int) *corev1.Pod {
	return boundPod(name, placement.StaticBurst, fmt.Sprintf(
		`{"version":1,"node":"n1","policy":"static-burst","containers":[{"name":"main","numaNodes":[%d]}]}`, numa))
}

func TestVerify(t *testing.T) {
	unbound := static("a", "1-2")
	unbound.Spec.NodeName = ""
	swapped := burst("a", 0)
	swapped.Annotations[api.CPUPolicyAnnotation] = "static"
	for _, test := range []struct {
		name string
		pods []*corev1.Pod
		want string // part of the error, "" for none
	}{
		{"right", []*corev1.Pod{static("a", "1-2"), static("b", "4-5"), burst("c", 0), burst("d", 1)}, ""},
		{"one CPU twice", []*corev1.Pod{static("a", "1-2"), static("b", "2-3")}, "pod b has CPUs of another pod"},
		{"a reserved CPU", []*corev1.Pod{static("a", "0-1")}, "pod a has CPUs of another pod, or that the node lacks"},
		{"no allocation", []*corev1.Pod{boundPod("a", placement.Static, "")}, "pod a has no CPUs of its own"},
		{"a CPU that is not there", []*corev1.Pod{static("a", "7-8")}, "pod a has CPUs of another pod, or that the node lacks"},
		{"another policy", []*corev1.Pod{swapped}, "pod a has CPUs by policy static-burst"},
		{"not bound", []*corev1.Pod{unbound}, "pod a is not bound"},
		{"more confined than fits", []*corev1.Pod{static("a", "4-5"), static("b", "6-7"), burst("c", 1)}, "confined to NUMA node 1, 0 of its CPUs are shared"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := verify(objectsOf(t, test.pods...), len(test.pods), true)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestVerifyWithoutPlugin(t *testing.T) {
	plain := makePod("a", 2, 1000)
	plain.Spec.NodeName = "n1"
	if err := verify(objectsOf(t, plain), 1, false); err != nil {
		t.Error(err)
	}
	if err := verify(objectsOf(t, plain), 2, false); err == nil || !strings.Contains(err.Error(), "there are 1 pods, not 2") {
		t.Errorf("a pod is missing: %v", err)
	}
	if err := verify(objectsOf(t, static("a", "1-2")), 1, false); err == nil || !strings.Contains(err.Error(), "does not ask and has an allocation") {
		t.Errorf("an allocation was accepted: %v", err)
	}
}

func TestVerifyLimitsProblems(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 30 {
		pods = append(pods, boundPod(fmt.Sprint("p", i), placement.Static, ""))
	}
	err := verify(objectsOf(t, pods...), 30, true)
	if err == nil || strings.Count(err.Error(), "\n") > maxProblems || !strings.Contains(err.Error(), "more") {
		t.Errorf("got %v", err)
	}
}
