package scheduler

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// nodeTopology is what one version of a node's NodeResourceTopology says. The informer
// stores it in place of the object, of which only name and version are kept. It is never
// changed, so that its address identifies what the node has reported.
type nodeTopology struct {
	metav1.ObjectMeta
	// err says why the object cannot be used. Then only the owner is set besides.
	err error
	// index is of this machine or of one that differs in its memory only.
	index *placement.Index
	cpus  int // of the machine
	// badKubelet is the kubelet's CPU manager policy where it is one that binds
	// CPUs itself.
	badKubelet string
	state      nodetopology.State
	// owner is the node that the object is about, "" when it does not say.
	owner types.UID
	// silent is since when the node's agent has not renewed its lease, zero when it has.
	silent time.Time
}

// same reports whether two versions of an object say the same.
func (t *nodeTopology) same(other *nodeTopology) bool {
	if t.err != nil || other.err != nil {
		return t.err != nil && other.err != nil && t.err.Error() == other.err.Error() && t.owner == other.owner
	}
	return t.index == other.index && t.state == other.state && t.owner == other.owner
}

// isOf reports whether the object is about this node, and not about an earlier one of the
// same name, which may have been another machine.
func (t *nodeTopology) isOf(node *corev1.Node) bool { return t.owner == "" || t.owner == node.UID }

// usable reports whether a node has reported a topology by which books can be kept.
func (t *nodeTopology) usable() bool { return t != nil && t.err == nil }

// machine returns nil where the topology is not usable.
func (t *nodeTopology) machine() *topology.Machine {
	if !t.usable() {
		return nil
	}
	return t.index.Machine()
}

// transform is the informer's transform: it reads an object, and lets go of its many
// strings.
func (t *topologies) transform(obj any) (any, error) {
	if object, ok := obj.(*v1alpha2.NodeResourceTopology); ok {
		return t.read(object), nil
	}
	return obj, nil
}

func (t *topologies) read(obj *v1alpha2.NodeResourceTopology) *nodeTopology {
	read := &nodeTopology{owner: nodetopology.NodeUID(obj),
		ObjectMeta: metav1.ObjectMeta{Name: obj.Name, UID: obj.UID, ResourceVersion: obj.ResourceVersion}}
	machine, state, err := nodetopology.ToMachine(obj)
	if err != nil {
		read.err = err
		return read
	}
	read.index, read.cpus, read.state = t.indexes.of(machine), len(machine.CPUs), state
	if state.KubeletPolicy != nodetopology.KubeletPolicyNone {
		read.badKubelet = state.KubeletPolicy
	}
	return read
}

// topologies holds the topology of every node that has reported one. It is fed by one
// informer.
type topologies struct {
	indexes *indexes
	agents  *heartbeats
	nodes   sync.Map      // name to *nodeTopology
	changes atomic.Uint64 // of nodes, counted after each
	mu      sync.Mutex    // held while nodes changes
}

func newTopologies(agents *heartbeats) *topologies {
	return &topologies{indexes: newIndexes(), agents: agents}
}

// get returns nil when the node has reported nothing.
func (t *topologies) get(node string) *nodeTopology {
	if found, ok := t.nodes.Load(node); ok {
		return found.(*nodeTopology)
	}
	return nil
}

// of returns nil when this node, and not just one of its name, has reported nothing.
func (t *topologies) of(node *corev1.Node) *nodeTopology {
	if found := t.get(node.Name); found != nil && found.isOf(node) {
		return found
	}
	return nil
}

// names returns the nodes that have reported.
func (t *topologies) names() []string {
	var names []string
	for name := range t.nodes.Range {
		names = append(names, name.(string))
	}
	return names
}

// set takes over what a node reports and returns false where that is no change.
func (t *topologies) set(reported *nodeTopology) (changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.get(reported.Name); have != nil && have.same(reported) {
		return false
	}
	now := *reported
	now.silent = t.agents.silence(now.Name, now.state.AgentLease)
	t.nodes.Store(now.Name, &now)
	t.changes.Add(1)
	return true
}

// judgeAgent takes over whether a node's agent is silent. It returns false where nothing
// has changed.
func (t *topologies) judgeAgent(node string) (now *nodeTopology, changed bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now = t.get(node)
	if now == nil {
		return nil, false
	}
	silent := t.agents.silence(node, now.state.AgentLease)
	if silent.Equal(now.silent) {
		return now, false
	}
	other := *now
	other.silent = silent
	t.nodes.Store(node, &other)
	t.changes.Add(1)
	return &other, true
}

// remove forgets a node whose object was deleted.
func (t *topologies) remove(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes.Delete(node)
	t.agents.forget(node)
	t.changes.Add(1)
}
