package nodetopology

import (
	"strings"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// WriterLabel is the label by which our objects are known.
const WriterLabel = "pinfold.dev/writer"

const writerAgent = "agent"

// unknownWriter is the owner of an object that does not say who wrote it.
const unknownWriter = "unknown writer"

// Owner tells who wrote an object and whether it is ours: it bears our label, and its zones are of
// our form. The second matters because another updater replaces the zones and leaves the labels as
// they are. The name of a foreign writer is the latest field manager that the API server recorded,
// as far as there is one.
func Owner(obj *v1alpha2.NodeResourceTopology) (writer string, ours bool) {
	if obj.Labels[WriterLabel] == writerAgent && hasOurZones(obj) {
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

// What an owner reference says of a node.
const (
	nodeVersion = "v1"
	nodeKind    = "Node"
)

// OwnedByNode makes the node of this UID own the object, so that it is deleted with the node, and
// does not speak for another one that gets the same name later.
func OwnedByNode(obj *v1alpha2.NodeResourceTopology, node types.UID) {
	obj.OwnerReferences = []metav1.OwnerReference{NodeReference(obj.Name, node)}
}

// NodeReference names a node as the owner of an object.
func NodeReference(name string, node types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: nodeVersion, Kind: nodeKind, Name: name, UID: node}
}

// NodeUID returns the UID of the node that owns the object, "" when none does.
func NodeUID(obj *v1alpha2.NodeResourceTopology) types.UID {
	for _, owner := range obj.OwnerReferences {
		if owner.APIVersion == nodeVersion && owner.Kind == nodeKind {
			return owner.UID
		}
	}
	return ""
}

// hasOurZones is also true of an object without zones: that one is ours and broken.
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

// Equal reports whether two objects of one node say the same, whatever the API server added to one
// of them. Nothing has to be written when they do.
func Equal(a, b *v1alpha2.NodeResourceTopology) bool {
	return a.Name == b.Name &&
		NodeUID(a) == NodeUID(b) &&
		a.Labels[WriterLabel] == b.Labels[WriterLabel] &&
		equality.Semantic.DeepEqual(a.Zones, b.Zones) &&
		equality.Semantic.DeepEqual(a.Attributes, b.Attributes)
}
