package scheduler

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// nodeTopology is one decoded version of a node's NodeResourceTopology. The informer stores it in
// place of the object. It is immutable, so that its address identifies what the node has reported.
type nodeTopology struct {
	metav1.ObjectMeta // name and versions only
	nodetopology.Decoded
	// silent is the time of the last renewal of the agent's lease if the agent is silent, otherwise
	// zero.
	silent time.Time
}

// same reports whether two versions of an object have the same content.
func (t *nodeTopology) same(other *nodeTopology) bool {
	if t.Err != nil && other.Err != nil {
		return t.Err.Error() == other.Err.Error() && t.Owner == other.Owner
	}
	return t.Decoded == other.Decoded
}

// usable reports whether the node has reported a topology from which books can be built. t may be
// nil.
func (t *nodeTopology) usable() bool { return t != nil && t.Err == nil }

// machine returns nil if the topology is not usable.
func (t *nodeTopology) machine() *topology.Machine {
	if !t.usable() {
		return nil
	}
	return t.Index.Machine()
}

// cpus returns the number of CPUs of a usable topology.
func (t *nodeTopology) cpus() int { return len(t.Index.Machine().CPUs) }

// topologies holds the topology of every node that has reported one. One informer feeds it.
type topologies struct {
	indexes *placement.Indexes
	agents  *heartbeats
	nodes   sync.Map      // name to *nodeTopology
	changes atomic.Uint64 // of nodes, incremented after each
	mu      sync.Mutex    // held while nodes changes
}

func newTopologies(agents *heartbeats) *topologies {
	return &topologies{indexes: placement.NewIndexes(), agents: agents}
}

// transform is the informer's transform. It decodes an object so that its many strings can be
// collected.
func (t *topologies) transform(obj any) (any, error) {
	if object, ok := obj.(*v1alpha2.NodeResourceTopology); ok {
		return t.read(object), nil
	}
	return obj, nil
}

func (t *topologies) read(obj *v1alpha2.NodeResourceTopology) *nodeTopology {
	return &nodeTopology{metav1.ObjectMeta{Name: obj.Name, UID: obj.UID, ResourceVersion: obj.ResourceVersion},
		nodetopology.Decode(obj, t.indexes), time.Time{}}
}

// get returns nil if no node of this name has reported a topology.
func (t *topologies) get(node string) *nodeTopology {
	if found, ok := t.nodes.Load(node); ok {
		return found.(*nodeTopology)
	}
	return nil
}

// of returns nil if this node, and not an earlier one of its name, has not reported a topology.
func (t *topologies) of(node *corev1.Node) *nodeTopology {
	if found := t.get(node.Name); found != nil && found.IsOf(node.UID) {
		return found
	}
	return nil
}

// set stores what a node reports. It returns false if the content has not changed.
func (t *topologies) set(reported *nodeTopology) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.get(reported.Name); have != nil && have.same(reported) {
		return false
	}
	t.store(*reported, t.agents.silence(reported.Name, reported.State.AgentLease))
	return true
}

// judgeAgent updates whether a node's agent is silent. It returns false if that has not changed.
func (t *topologies) judgeAgent(node string) (now *nodeTopology, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	have := t.get(node)
	if have == nil {
		return nil, false
	}
	silent := t.agents.silence(node, have.State.AgentLease)
	if silent.Equal(have.silent) {
		return have, false
	}
	return t.store(*have, silent), true
}

func (t *topologies) store(now nodeTopology, silent time.Time) *nodeTopology {
	now.silent = silent
	t.nodes.Store(now.Name, &now)
	t.changes.Add(1)
	return &now
}

// remove deletes the topology of a node whose object was deleted.
func (t *topologies) remove(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes.Delete(node)
	t.agents.forget(node)
	t.changes.Add(1)
}
