package nodetopology

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// State is the information that the agent publishes in addition to the machine.
type State struct {
	// ReservedCPUs are never exclusive (the kubelet's reservedSystemCPUs).
	ReservedCPUs cpuset.Set
	// KubeletPolicy is the kubelet's cpuManagerPolicy, "" if unknown. CPUs can be bound only with
	// [KubeletPolicyNone].
	KubeletPolicy string
	// AgentHealth is [AgentHealthy], or a description of the problem for users.
	AgentHealth string
	// AgentLease is the Lease, as NAMESPACE/NAME, that the agent renews while it works; "" if it
	// renews none.
	AgentLease string
}

// LeaseNamespace is the default namespace of the agents' leases.
const LeaseNamespace = "pinfold-system"

// BindingCondition is the type of the node condition that states whether the decisions about CPUs
// are enforced.
const BindingCondition corev1.NodeConditionType = "PinfoldCPUBinding"

const (
	// KubeletPolicyNone is the cpuManagerPolicy under which CPUs can be bound.
	KubeletPolicyNone = "none"
	// AgentHealthy is the health of an agent that applies the decisions.
	AgentHealthy = "ok"
	// AgentObserves is the health of an agent that works, and only observes.
	AgentObserves = "observes"
	// Observing is the reason of the condition then.
	Observing = "Observing"
)

// FromMachine returns the object of a node. Equal arguments give equal objects. It returns an error
// if the machine is not valid.
func FromMachine(nodeName string, m *topology.Machine, state State) (*v1alpha2.NodeResourceTopology, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("NodeResourceTopology %s: %w", nodeName, err)
	}
	return fromValid(nodeName, m, state)
}

// fromValid is FromMachine for a valid machine.
func fromValid(nodeName string, m *topology.Machine, state State) (*v1alpha2.NodeResourceTopology, error) {
	obj := &v1alpha2.NodeResourceTopology{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha2.SchemeGroupVersion.String(), Kind: "NodeResourceTopology"},
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{writerLabel: writerAgent}},
		Zones:      append(append(packageZones(m), numaZones(m)...), llcZones(m)...),
		Attributes: objectAttributes(m, state),
	}
	digest, err := digestOf(obj)
	if err != nil {
		return nil, fmt.Errorf("NodeResourceTopology %s: %w", nodeName, err)
	}
	obj.Attributes = append(obj.Attributes, attribute(attrDigest, digest))
	return obj, nil
}

// digestOf returns a checksum of the zones and attributes of an object.
func digestOf(obj *v1alpha2.NodeResourceTopology) (string, error) {
	text, err := json.Marshal(v1alpha2.NodeResourceTopology{Zones: obj.Zones, Attributes: obj.Attributes})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

func attribute(name, value string) v1alpha2.AttributeInfo {
	return v1alpha2.AttributeInfo{Name: name, Value: value}
}

func objectAttributes(m *topology.Machine, state State) v1alpha2.AttributeList {
	list := v1alpha2.AttributeList{
		attribute(attrFormat, format),
		attribute(attrSize, fmt.Sprintf("cpus=%d cores=%d llcs=%d numaNodes=%d dies=%d packages=%d kinds=%d",
			len(m.CPUs), len(m.Cores()), len(m.LLCs()), len(m.NUMANodes), len(m.Dies()), len(m.Packages()), len(m.Kinds))),
		attribute(attrDies, formatParts(partsOf(m.Dies()))),
	}
	if len(m.Kinds) > 1 || m.Kinds[0] != "" {
		list = append(list, attribute(attrKinds, formatParts(kindParts(m))))
	}
	list = append(list,
		attribute(attrOffline, m.Offline.String()),
		attribute(attrIsolated, m.Isolated.String()),
		attribute(attrReserved, state.ReservedCPUs.String()),
		attribute(attrKubeletPolicy, sanitise(state.KubeletPolicy)),
		attribute(attrAgentHealth, sanitise(state.AgentHealth)))
	if state.AgentLease != "" {
		list = append(list, attribute(attrAgentLease, sanitise(state.AgentLease)))
	}
	return list
}

// sanitise makes any text valid in JSON.
func sanitise(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func kindParts(m *topology.Machine) []part {
	parts := make([]part, 0, len(m.Kinds))
	for _, k := range m.Kinds {
		parts = append(parts, part{url.QueryEscape(string(k)), m.CPUsOfKind(k)})
	}
	return parts
}

func packageZones(m *topology.Machine) v1alpha2.ZoneList {
	var zones v1alpha2.ZoneList
	for _, p := range m.Packages() {
		zones = append(zones, v1alpha2.Zone{
			Name: zoneName(prefixPackage, p.ID), Type: typePackage,
			Attributes: v1alpha2.AttributeList{attribute(attrCPUs, p.CPUs.String())},
		})
	}
	return zones
}

func numaZones(m *topology.Machine) v1alpha2.ZoneList {
	var zones v1alpha2.ZoneList
	for _, n := range m.NUMANodes {
		zone := v1alpha2.Zone{
			Name: zoneName(prefixNUMA, n.ID), Type: typeNUMA, Parent: packageHolding(m, n.CPUs),
			Attributes: v1alpha2.AttributeList{attribute(attrCPUs, n.CPUs.String())},
		}
		if n.LocalCPUs != n.CPUs {
			zone.Attributes = append(zone.Attributes, attribute(attrLocalCPUs, n.LocalCPUs.String()))
		}
		zone.Attributes = append(zone.Attributes, attribute(attrMemoryBytes, strconv.FormatUint(n.MemoryBytes, 10)))
		for i, to := range m.NUMANodes {
			zone.Costs = append(zone.Costs, v1alpha2.CostInfo{Name: zoneName(prefixNUMA, to.ID), Value: int64(n.Distances[i])})
		}
		zones = append(zones, zone)
	}
	return zones
}

func llcZones(m *topology.Machine) v1alpha2.ZoneList {
	cores := map[topology.LLCID][]part{}
	for _, c := range partsOf(m.Cores()) {
		first, _ := m.CPU(c.cpus.First())
		cores[first.LLC] = append(cores[first.LLC], c)
	}
	var zones v1alpha2.ZoneList
	for _, l := range m.LLCs() {
		parent := nodeHolding(m, l.CPUs)
		if parent == "" {
			parent = packageHolding(m, l.CPUs)
		}
		zones = append(zones, v1alpha2.Zone{
			Name: zoneName(prefixLLC, l.ID), Type: typeLLC, Parent: parent,
			Attributes: v1alpha2.AttributeList{
				attribute(attrCPUs, l.CPUs.String()),
				attribute(attrCores, formatParts(cores[l.ID])),
			},
		})
	}
	return zones
}

// nodeHolding returns the name of the NUMA node that contains all of the CPUs, "" if none does.
func nodeHolding(m *topology.Machine, cpus cpuset.Set) string {
	for _, n := range m.NUMANodes {
		if !cpus.IsEmpty() && cpus.IsSubsetOf(n.CPUs) {
			return zoneName(prefixNUMA, n.ID)
		}
	}
	return ""
}

// packageHolding returns the name of the package that contains all of the CPUs, "" if none does.
func packageHolding(m *topology.Machine, cpus cpuset.Set) string {
	for _, p := range m.Packages() {
		if !cpus.IsEmpty() && cpus.IsSubsetOf(p.CPUs) {
			return zoneName(prefixPackage, p.ID)
		}
	}
	return ""
}
