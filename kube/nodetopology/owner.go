package nodetopology

import (
	"strings"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// writerLabel is the label of the agent's objects.
const writerLabel = "pinfold.dev/writer"

const writerAgent = "agent"

// unknownWriter is the writer of an object that does not name its writer.
const unknownWriter = "unknown writer"

// Owner returns the writer of an object, and whether it is the agent. An object of the agent has
// its label and zones in its format. The zones matter because another updater replaces them but
// keeps the labels. The writer of another object is the latest field manager recorded by the API
// server.
func Owner(obj *v1alpha2.NodeResourceTopology) (writer string, ours bool) {
	if obj.Labels[writerLabel] == writerAgent && hasOurZones(obj) {
		return writerAgent, true
	}
	writer = unknownWriter
	var latest time.Time
	for _, field := range obj.ManagedFields {
		if field.Time != nil && field.Time.After(latest) {
			writer, latest = field.Manager, field.Time.Time
		}
	}
	return writer, false
}

// The kind of a node in owner references.
const (
	nodeVersion = "v1"
	nodeKind    = "Node"
)

// OwnedByNode makes the node with this UID the owner of the object. The object is then deleted with
// the node and not used for a later node of the same name.
func OwnedByNode(obj *v1alpha2.NodeResourceTopology, node types.UID) {
	obj.OwnerReferences = []metav1.OwnerReference{NodeReference(obj.Name, node)}
}

// NodeReference returns an owner reference to a node.
func NodeReference(name string, node types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: nodeVersion, Kind: nodeKind, Name: name, UID: node}
}

// NodeUID returns the UID of the node that owns the object, "" if none does.
func NodeUID(obj *v1alpha2.NodeResourceTopology) types.UID {
	for _, owner := range obj.OwnerReferences {
		if owner.APIVersion == nodeVersion && owner.Kind == nodeKind {
			return owner.UID
		}
	}
	return ""
}

// hasOurZones reports whether an object has zones in the agent's format. It is true for an object
// without zones, which is a damaged object of the agent.
func hasOurZones(obj *v1alpha2.NodeResourceTopology) bool {
	for _, zone := range obj.Zones {
		for _, a := range zone.Attributes {
			if strings.HasPrefix(a.Name, attrPrefix) {
				return true
			}
		}
	}
	return len(obj.Zones) == 0
}

// Equal reports whether two objects of one node have the same content, regardless of what the API
// server added. If so, nothing needs to be written.
func Equal(a, b *v1alpha2.NodeResourceTopology) bool {
	return a.Name == b.Name &&
		NodeUID(a) == NodeUID(b) &&
		a.Labels[writerLabel] == b.Labels[writerLabel] &&
		equality.Semantic.DeepEqual(a.Zones, b.Zones) &&
		equality.Semantic.DeepEqual(a.Attributes, b.Attributes)
}
