// Package simnode creates simulated nodes: objects in a real API server that describe machines that
// do not exist. [Nodes] builds them from groups of equal machines and [Create] creates them. KWOK
// simulates the kubelet of each, so in the API the node becomes ready and its pods run. Each node
// has the NodeTopology that Pinfold's agent would publish for such a machine, and [RunAgents] allocates
// CPUs to its pods as that agent would.
package simnode

import (
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/local/localcluster"
)

const (
	// maxPods exceeds the kubelet's default of 110, because a machine of 256 CPUs has room for more
	// small pods.
	maxPods = 500
	// defaultMemoryPerCPU applies to machines of unknown memory, in bytes.
	defaultMemoryPerCPU = 4 << 30
)

// Node is a simulated node.
type Node struct {
	Name    string
	Machine *topology.Machine
	Labels  map[string]string
	// ReservedCPUs are the kubelet's reservedSystemCPUs, which are not allocatable.
	ReservedCPUs cpuset.Set
}

// Group is a number of equal nodes.
type Group struct {
	Name    string // the nodes are called Name-0, Name-1, ...
	Machine *topology.Machine
	Count   int
	Labels  map[string]string
}

// Nodes returns the nodes of all groups. Groups of the same name share one numbering, so that all
// names differ.
func Nodes(groups []Group) []Node {
	var nodes []Node
	next := map[string]int{}
	for _, group := range groups {
		for range group.Count {
			nodes = append(nodes, Node{
				Name:    fmt.Sprintf("%s-%d", group.Name, next[group.Name]),
				Machine: group.Machine,
				Labels:  group.Labels,
			})
			next[group.Name]++
		}
	}
	return nodes
}

// Object returns the Node object as a kubelet would register it.
func (n Node) Object() *corev1.Node {
	// A kubelet sets the beta labels as well. Without them, the controller manager adds them with one
	// more request per node.
	labels := map[string]string{
		corev1.LabelHostname:      n.Name,
		corev1.LabelOSStable:      "linux",
		corev1.LabelArchStable:    "amd64",
		"beta.kubernetes.io/os":   "linux",
		"beta.kubernetes.io/arch": "amd64",
	}
	maps.Copy(labels, n.Labels)
	online := n.Machine.Online()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        n.Name,
			Labels:      labels,
			Annotations: map[string]string{localcluster.SimulatedAnnotation: localcluster.SimulatedValue},
		},
		Status: corev1.NodeStatus{
			Capacity:    n.resources(online),
			Allocatable: n.resources(online.Difference(n.ReservedCPUs)),
		},
	}
}

// Topology returns the object that the agent would publish for the node with this UID.
func (n Node) Topology(uid types.UID) (*nodetopology.NodeTopology, error) {
	object, err := nodetopology.FromMachine(n.Name, n.Machine, nodetopology.State{
		ReservedCPUs:  n.ReservedCPUs,
		KubeletPolicy: nodetopology.KubeletPolicyNone,
		AgentHealth:   nodetopology.AgentHealthy,
		Allocations:   api.Allocations{}, // see RunAgents
	})
	if err != nil {
		return nil, fmt.Errorf("describe node %s: %w", n.Name, err)
	}
	nodetopology.OwnedByNode(object, uid)
	return object, nil
}

func (n Node) resources(cpus cpuset.Set) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(cpus.Len()), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(n.memory()), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(maxPods, resource.DecimalSI),
	}
}

// memory returns the memory of the machine in bytes.
func (n Node) memory() uint64 {
	var sum uint64
	for _, node := range n.Machine.NUMANodes {
		sum += node.MemoryBytes
	}
	if sum == 0 {
		return uint64(len(n.Machine.CPUs)) * defaultMemoryPerCPU
	}
	return sum
}
