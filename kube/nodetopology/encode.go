package nodetopology

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
)

// State is the information that the agent publishes in addition to the machine.
type State struct {
	// Writer names the program that wrote the object, and its version.
	Writer string
	// ReservedCPUs are never exclusive (the kubelet's reservedSystemCPUs).
	ReservedCPUs cpuset.Set
	// WithheldCPUs are online, and no pod may use them. The machine has them as offline ones.
	WithheldCPUs cpuset.Set
	// KubeletPolicy is the kubelet's cpuManagerPolicy, "" if unknown. CPUs can be bound only with
	// [KubeletPolicyNone].
	KubeletPolicy string
	// AgentHealth is [AgentHealthy], or a description of the problem for users.
	AgentHealth string
	// AgentLease is the Lease, as NAMESPACE/NAME, that the agent renews while it works; "" if it
	// renews none.
	AgentLease string
	// Allocations are what the agent has allocated to pods, nil if it allocates nothing.
	Allocations api.Allocations
	// Findings are what people should know of the agent, the node and its pods, and its condition does not
	// say. At most maxFindings count.
	Findings []Finding
}

// SameButAllocations reports whether two states differ at most in their allocations and findings.
func (s *State) SameButAllocations(other *State) bool {
	return s.Writer == other.Writer && s.ReservedCPUs == other.ReservedCPUs && s.WithheldCPUs == other.WithheldCPUs && s.KubeletPolicy == other.KubeletPolicy &&
		s.AgentHealth == other.AgentHealth && s.AgentLease == other.AgentLease
}

// Reserved returns the amount that a node reserves for the system of the CPUs that pods may use.
func (s *State) Reserved(node *corev1.Node) ledger.MilliCPU {
	return max(0, api.Reserved(node)-ledger.MilliCPU(s.WithheldCPUs.Len())*1000)
}

// AllocatorNode is the allocator of a node whose agent allocates CPUs to pods.
const AllocatorNode = "node"

// LeaseNamespace is the default namespace of the agents' leases.
const LeaseNamespace = "pinfold-system"

// BindingCondition is the type of the node condition that states whether the decisions about CPUs
// are enforced.
const BindingCondition corev1.NodeConditionType = "PinfoldCPUBinding"

const (
	// KubeletPolicyNone is the cpuManagerPolicy under which CPUs can be bound.
	KubeletPolicyNone = "none"
	// Enforced is how the condition's message begins when it is True.
	Enforced = "containers run on the CPUs that they were given"
	// AgentHealthy is the health of an agent that applies the decisions.
	AgentHealthy = "ok"
	// AgentObserves is the health of an agent that works, and only observes.
	AgentObserves = "observes"
	// Observing is the reason of the condition then.
	Observing = "Observing"
)

// FromMachine returns the object of a node. Equal arguments give equal objects. It returns an error
// if the machine is not valid.
func FromMachine(nodeName string, m *topology.Machine, state State) (*NodeTopology, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("NodeTopology %s: %w", nodeName, err)
	}
	object := &NodeTopology{
		TypeMeta:   metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: Kind},
		ObjectMeta: metav1.ObjectMeta{Name: nodeName},
		Machine:    machineText(m),
		Status: Status{Writer: sanitise(state.Writer), ReservedCPUs: state.ReservedCPUs.String(), WithheldCPUs: state.WithheldCPUs.String(), KubeletPolicy: sanitise(state.KubeletPolicy),
			AgentHealth: sanitise(state.AgentHealth), AgentLease: sanitise(state.AgentLease)},
	}
	if state.Allocations != nil {
		object.Status.Allocator = AllocatorNode
	}
	for _, uid := range slices.Sorted(maps.Keys(state.Allocations)) {
		object.Status.Allocations = append(object.Status.Allocations, PodAllocation{uid, state.Allocations[uid].Encode()})
	}
	object.Status.Findings = bounded(state.Findings)
	object.Digest = object.digest()
	return object, nil
}

// digest returns a checksum of what the agent reports.
func (n *NodeTopology) digest() string {
	text, err := json.Marshal(struct {
		Machine
		Status
	}{n.Machine, n.Status})
	if err != nil {
		panic(err) // texts and numbers are always valid
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// maxText bounds the texts of a State in bytes. They are repeated in messages about pods.
const maxText = 1000

// sanitise makes any text valid in JSON, and short.
func sanitise(text string) string { return api.Shorten(strings.ToValidUTF8(text, "\uFFFD"), maxText) }

// maxFindings and maxFinding bound the findings of a node, and the text of each in bytes.
const maxFindings, maxFinding = 100, 600

// bounded returns the first findings, with texts that are valid and short.
func bounded(all []Finding) (kept []Finding) {
	for _, f := range all[:min(len(all), maxFindings)] {
		f.Message = api.Shorten(sanitise(f.Message), maxFinding)
		kept = append(kept, f)
	}
	return kept
}

func machineText(m *topology.Machine) Machine {
	text := Machine{
		Size: fmt.Sprintf("cpus=%d cores=%d llcs=%d numaNodes=%d dies=%d packages=%d kinds=%d",
			len(m.CPUs), len(m.Cores()), len(m.LLCs()), len(m.NUMANodes), len(m.Dies()), len(m.Packages()), len(m.Kinds)),
		Packages: formatParts(partsOf(m.Packages())),
		Dies:     formatParts(partsOf(m.Dies())),
		LLCs:     formatParts(partsOf(m.LLCs())),
		Cores:    formatParts(partsOf(m.Cores())),
		Offline:  m.Offline.String(),
		Isolated: m.Isolated.String(),
	}
	if len(m.Kinds) > 1 || m.Kinds[0] != "" {
		text.Kinds = formatParts(kindParts(m))
	}
	var nodes, local []part
	var distances, memory []string
	for _, n := range m.NUMANodes {
		name := strconv.Itoa(int(n.ID))
		nodes = append(nodes, part{name, n.CPUs})
		if n.LocalCPUs != n.CPUs {
			local = append(local, part{name, n.LocalCPUs})
		}
		distances = append(distances, formatNumbers(n.Distances))
		memory = append(memory, strconv.FormatUint(n.MemoryBytes, 10))
	}
	text.NUMANodes, text.LocalCPUs = formatParts(nodes), formatParts(local)
	text.Distances, text.MemoryBytes = strings.Join(distances, " "), strings.Join(memory, " ")
	return text
}

func kindParts(m *topology.Machine) []part {
	parts := make([]part, 0, len(m.Kinds))
	for _, k := range m.Kinds {
		parts = append(parts, part{url.QueryEscape(string(k)), m.CPUsOfKind(k)})
	}
	return parts
}
