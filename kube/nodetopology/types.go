package nodetopology

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// GroupVersion is that of the kind NodeTopology.
var GroupVersion = schema.GroupVersion{Group: "pinfold.dev", Version: "v1alpha1"}

// Resource is the name of the kind in requests, and Kind that in objects.
const (
	Resource = "nodetopologies"
	Kind     = "NodeTopology"
)

// NodeTopology is what the agent of the node of the same name reports. Its fields are text, so that
// a damaged object does not prevent that others are read.
type NodeTopology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Machine           Machine `json:"machine"`
	Status            Status  `json:"status"`
	// Digest is a checksum of Machine and Status.
	Digest string `json:"digest"`
}

// Machine is a [topology.Machine] in text; see the package comment. Machines with the same CPUs and
// distances differ in MemoryBytes only.
type Machine struct {
	Size        string `json:"size"` // for people
	Packages    string `json:"packages"`
	Dies        string `json:"dies"`
	NUMANodes   string `json:"numaNodes"`
	LLCs        string `json:"llcs"`
	Cores       string `json:"cores"`
	Kinds       string `json:"kinds,omitempty"`       // of machines with several
	LocalCPUs   string `json:"localCPUs,omitempty"`   // of NUMA nodes for which these are others than their own
	Distances   string `json:"distances,omitempty"`   // a row per NUMA node
	MemoryBytes string `json:"memoryBytes,omitempty"` // one number per NUMA node
	Offline     string `json:"offlineCPUs"`
	Isolated    string `json:"isolatedCPUs"`
}

// Status is a [State] in text.
type Status struct {
	Writer        string `json:"writer"`
	ReservedCPUs  string `json:"reservedCPUs"`
	WithheldCPUs  string `json:"withheldCPUs,omitempty"`
	KubeletPolicy string `json:"kubeletCPUManagerPolicy"`
	AgentHealth   string `json:"agentHealth"`
	AgentLease    string `json:"agentLease,omitempty"`
	// Allocator is [AllocatorNode], or "" if the agent allocates nothing: it only observes, say.
	Allocator   string          `json:"allocator,omitempty"`
	Allocations []PodAllocation `json:"allocations,omitempty"` // in the order of the UIDs
	Findings    []Finding       `json:"findings,omitempty"`
}

// Finding is what an agent says for people.
type Finding struct {
	// Severity is that of package core/status.
	Severity string `json:"severity"`
	// Reason is that of the pod's event, or another one that docs/agent.md lists.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Pod is "" if it is about the node.
	Pod types.UID `json:"pod,omitempty"`
}

// PodAllocation is the CPUs that the agent has allocated to a pod.
type PodAllocation struct {
	UID        types.UID `json:"uid"`
	Allocation string    `json:"allocation"` // an [api.Allocation] in text
}

// DeepCopy returns a copy.
func (n *NodeTopology) DeepCopy() *NodeTopology {
	copied := *n
	n.DeepCopyInto(&copied.ObjectMeta)
	copied.Status.Allocations = slices.Clone(n.Status.Allocations)
	copied.Status.Findings = slices.Clone(n.Status.Findings)
	return &copied
}

// DeepCopyObject implements [runtime.Object].
func (n *NodeTopology) DeepCopyObject() runtime.Object { return n.DeepCopy() }

// List is a list of objects.
type List struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []NodeTopology `json:"items"`
}

// DeepCopyObject implements [runtime.Object].
func (l *List) DeepCopyObject() runtime.Object {
	copied := *l
	l.DeepCopyInto(&copied.ListMeta)
	copied.Items = make([]NodeTopology, len(l.Items))
	for i := range l.Items {
		copied.Items[i] = *l.Items[i].DeepCopy()
	}
	return &copied
}

// AddToScheme adds the kind to a scheme.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypeWithName(GroupVersion.WithKind(Kind), &NodeTopology{})
	scheme.AddKnownTypeWithName(GroupVersion.WithKind(Kind+"List"), &List{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
