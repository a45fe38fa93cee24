package scheduler

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// nodeTopology is what one version of a node's NodeResourceTopology says. It is
// never changed, so that its address stands for that version.
type nodeTopology struct {
	// err says why the object cannot be used. Then there are only resourceVersion and owner.
	err error
	// index is of this machine or of one that differs in its memory only.
	index *placement.Index
	cpus  int // of the machine
	// badKubelet is the kubelet's CPU manager policy where it is one that binds
	// CPUs itself.
	badKubelet      string
	state           nodetopology.State
	resourceVersion string
	// owner is the node that the object is about, "" when it does not say.
	owner types.UID
	// silent is since when the node's agent has not renewed its lease, zero when it has.
	silent time.Time
}

// isOf tells whether the object is about this node, and not about an earlier one of the
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

func (t *topologies) read(obj *v1alpha2.NodeResourceTopology) *nodeTopology {
	read := &nodeTopology{resourceVersion: obj.ResourceVersion, owner: nodetopology.NodeUID(obj)}
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

// topologies holds the topology of every node that has reported one. It is fed by
// an informer and, so that a pod that is queued again because of an object is
// judged by that object, by the queueing hints.
type topologies struct {
	indexes *indexes
	agents  *heartbeats
	nodes   sync.Map      // name to *nodeTopology
	changes atomic.Uint64 // of nodes, counted after each
	mu      sync.Mutex    // held while nodes or gone changes
	// gone is the version at which an object was deleted. One of the two that feed
	// may be behind the other, and bring an object once more that is gone.
	gone map[string]string
}

func newTopologies(agents *heartbeats) *topologies {
	return &topologies{indexes: newIndexes(), agents: agents, gone: map[string]string{}}
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

// set takes a version of an object, unless a newer one is there.
func (t *topologies) set(obj *v1alpha2.NodeResourceTopology) {
	if have := t.get(obj.Name); have != nil && !newer(obj.ResourceVersion, have.resourceVersion) {
		return
	}
	read := t.read(obj) // slow for a large machine, so outside the lock
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.get(obj.Name); have != nil && !newer(obj.ResourceVersion, have.resourceVersion) {
		return
	}
	if gone, ok := t.gone[obj.Name]; ok && !newer(obj.ResourceVersion, gone) {
		return
	}
	read.silent = t.agents.silence(obj.Name, read.state.AgentLease)
	t.nodes.Store(obj.Name, read)
	t.changes.Add(1)
	delete(t.gone, obj.Name)
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

// remove forgets an object that was deleted at that version or later, unless it
// has been created again.
func (t *topologies) remove(node, resourceVersion string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.get(node); have != nil && newer(have.resourceVersion, resourceVersion) {
		return
	}
	t.nodes.Delete(node)
	t.agents.forget(node)
	t.changes.Add(1)
	t.gone[node] = resourceVersion
}

// newer reports whether version a replaces version b. What cannot be compared
// (test objects without a version) replaces whatever is there.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
