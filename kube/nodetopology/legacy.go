package nodetopology

import (
	"slices"
	"strconv"
	"strings"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
)

// The attributes and zones of objects of the first version.
const (
	legacyPrefix = "pinfold.dev/"
	legacyWriter = legacyPrefix + "writer" // a label
	legacyFormat = "1"
)

// legacyWriterName is the writer of objects of the first version.
const legacyWriterName = "an agent that writes NodeResourceTopology"

// Legacy reports whether an agent of the first version wrote a NodeResourceTopology. Other programs
// write objects of this kind, too; some replace the zones of an agent's object and keep its label.
func Legacy(object *v1alpha2.NodeResourceTopology) bool {
	return object.Labels[legacyWriter] == "agent" && (len(object.Zones) == 0 || slices.ContainsFunc(object.Zones, func(z v1alpha2.Zone) bool {
		return len(ours(z.Attributes)) > 0
	}))
}

// FromLegacy converts an object of the first version. An object that was changed after it was
// written is converted to one with a digest that does not match.
func FromLegacy(object *v1alpha2.NodeResourceTopology) *NodeTopology {
	converted := &NodeTopology{ObjectMeta: object.ObjectMeta}
	top := valuesOf(object.Attributes)
	m := &converted.Machine
	m.Size, m.Dies, m.Kinds, m.Offline, m.Isolated = top["size"], top["dies"], top["kinds"], top["offline-cpus"], top["isolated-cpus"]
	converted.Status = Status{Writer: legacyWriterName, ReservedCPUs: top["reserved-cpus"], KubeletPolicy: top["kubelet-cpu-manager-policy"],
		AgentHealth: top["agent-health"], AgentLease: top["agent-lease"]}
	for _, z := range object.Zones {
		m.addLegacyZone(z)
	}
	if top["format"] == legacyFormat && legacyDigest(object) == top["digest"] {
		converted.Digest = converted.digest()
	}
	return converted
}

func (m *Machine) addLegacyZone(z v1alpha2.Zone) {
	values := valuesOf(z.Attributes)
	_, id, _ := strings.Cut(z.Name, "-")
	add := func(list *string, items ...string) {
		*list = strings.TrimSpace(*list + " " + strings.Join(items, ":"))
	}
	switch z.Type {
	case "Package":
		add(&m.Packages, id, values["cpus"])
	case "LLC":
		add(&m.LLCs, id, values["cpus"])
		add(&m.Cores, values["cores"])
	case "Node":
		add(&m.NUMANodes, id, values["cpus"])
		if local, ok := values["local-cpus"]; ok {
			add(&m.LocalCPUs, id, local)
		}
		add(&m.MemoryBytes, values["memory-bytes"])
		var costs []string
		for _, c := range z.Costs { // in the order of the zones
			costs = append(costs, strconv.FormatInt(c.Value, 10))
		}
		add(&m.Distances, strings.Join(costs, ","))
	}
}

// ours returns the attributes of Pinfold.
func ours(list v1alpha2.AttributeList) (kept v1alpha2.AttributeList) {
	for _, a := range list {
		if strings.HasPrefix(a.Name, legacyPrefix) {
			kept = append(kept, a)
		}
	}
	return kept
}

func valuesOf(list v1alpha2.AttributeList) map[string]string {
	values := map[string]string{}
	for _, a := range ours(list) {
		values[strings.TrimPrefix(a.Name, legacyPrefix)] = a.Value
	}
	return values
}

// legacyDigest returns the digest that an agent of the first version wrote. What other programs
// have added does not count.
func legacyDigest(object *v1alpha2.NodeResourceTopology) string {
	var kept v1alpha2.NodeResourceTopology
	for _, z := range object.Zones {
		if slices.Contains([]string{"Package", "Node", "LLC"}, z.Type) {
			z.Attributes = ours(z.Attributes)
			kept.Zones = append(kept.Zones, z)
		}
	}
	for _, a := range ours(object.Attributes) {
		if a.Name != legacyPrefix+"digest" {
			kept.Attributes = append(kept.Attributes, a)
		}
	}
	return checksum(kept)
}
