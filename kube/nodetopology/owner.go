package nodetopology

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The kind of a node in owner references.
const (
	nodeVersion = "v1"
	nodeKind    = "Node"
)

// OwnedByNode makes the node with this UID the owner of the object. The object is then deleted with
// the node and not used for a later node of the same name.
func OwnedByNode(object *NodeTopology, node types.UID) {
	object.OwnerReferences = []metav1.OwnerReference{NodeReference(object.Name, node)}
}

// NodeReference returns an owner reference to a node.
func NodeReference(name string, node types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: nodeVersion, Kind: nodeKind, Name: name, UID: node}
}

// NodeUID returns the UID of the node that owns the object, "" if none does.
func NodeUID(object metav1.Object) types.UID {
	for _, owner := range object.GetOwnerReferences() {
		if owner.APIVersion == nodeVersion && owner.Kind == nodeKind {
			return owner.UID
		}
	}
	return ""
}

// Equal reports whether two objects of one node have the same content, regardless of what the API
// server added. If so, nothing needs to be written.
func Equal(a, b *NodeTopology) bool {
	return a.Name == b.Name && NodeUID(a) == NodeUID(b) && a.Machine == b.Machine && reflect.DeepEqual(a.Status, b.Status) && a.Digest == b.Digest
}
