package simnode

import (
	"fmt"
	"maps"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/lab/localcluster"
)

const (
	// defaultPods is above the kubelet's default of 110: a machine of 256 CPUs
	// holds more than that many small pods.
	defaultPods = 500
	// defaultMemoryPerCPU is assumed where a machine does not say how much
	// memory it has.
	defaultMemoryPerCPU = 4 << 30
)

// Node is a simulated node.
type Node struct {
	Name    string
	Machine *topology.Machine
	Labels  map[string]string
	// ReservedCPUs are the kubelet's reservedSystemCPUs. They are part of the
	// capacity and not of what can be allocated.
	ReservedCPUs cpuset.Set
	// MemoryBytes is the memory of the node. 0: that of the machine's NUMA nodes,
	// or 4 GiB per CPU when those do not say.
	MemoryBytes uint64
	// Pods is how many pods fit. 0: 500.
	Pods int64
}

// Object returns the node as its kubelet would register it.
func (n Node) Object() *corev1.Node {
	// The beta labels too, as a kubelet does: the controller manager would add
	// them otherwise, at one more request per node.
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

// Topology returns what the agent would publish about the node that has this UID.
func (n Node) Topology(uid types.UID) (*v1alpha2.NodeResourceTopology, error) {
	object, err := nodetopology.FromMachine(n.Name, n.Machine, nodetopology.State{
		ReservedCPUs:  n.ReservedCPUs,
		KubeletPolicy: nodetopology.KubeletPolicyNone,
		AgentHealth:   nodetopology.AgentHealthy,
	})
	if err != nil {
		return nil, fmt.Errorf("describe node %s: %w", n.Name, err)
	}
	nodetopology.OwnedByNode(object, uid)
	return object, nil
}

func (n Node) resources(cpus cpuset.Set) corev1.ResourceList {
	pods := n.Pods
	if pods == 0 {
		pods = defaultPods
	}
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(cpus.Len()), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(int64(n.memory()), resource.BinarySI),
		corev1.ResourcePods:   *resource.NewQuantity(pods, resource.DecimalSI),
	}
}

func (n Node) memory() uint64 {
	if n.MemoryBytes != 0 {
		return n.MemoryBytes
	}
	var sum uint64
	for _, node := range n.Machine.NUMANodes {
		sum += node.MemoryBytes
	}
	if sum != 0 {
		return sum
	}
	return uint64(len(n.Machine.CPUs)) * defaultMemoryPerCPU
}
