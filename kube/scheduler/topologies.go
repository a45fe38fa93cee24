package scheduler

import (
	"maps"
	"slices"
	"sync"

	"github.com/k8stopologyawareschedwg/noderesourcetopology-api/pkg/apis/topology/v1alpha2"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// nodeTopology is what one version of a node's NodeResourceTopology says. It is
// never changed, so that its address stands for that version.
type nodeTopology struct {
	resourceVersion string
	// machine and its index are nil when err is not.
	machine *topology.Machine
	index   *placement.Index
	state   nodetopology.State
	// err says why the object cannot be used.
	err error
}

func readTopology(obj *v1alpha2.NodeResourceTopology) *nodeTopology {
	t := &nodeTopology{resourceVersion: obj.ResourceVersion}
	if t.machine, t.state, t.err = nodetopology.ToMachine(obj); t.err == nil {
		t.index = placement.NewIndex(t.machine)
	}
	return t
}

// topologies holds the topology of every node that has reported one. It is fed by
// an informer and, so that a pod that is queued again because of an object is
// judged by that object, by the queueing hints.
type topologies struct {
	mu    sync.RWMutex
	nodes map[string]*nodeTopology
}

func newTopologies() *topologies {
	return &topologies{nodes: map[string]*nodeTopology{}}
}

// get returns nil when the node has reported nothing.
func (t *topologies) get(node string) *nodeTopology {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.nodes[node]
}

// names returns the nodes that have reported.
func (t *topologies) names() []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Keys(t.nodes))
}

// set takes a version of an object, unless a newer one is there.
func (t *topologies) set(obj *v1alpha2.NodeResourceTopology) {
	if have := t.get(obj.Name); have != nil && !newer(obj.ResourceVersion, have.resourceVersion) {
		return
	}
	read := readTopology(obj) // slow for a large machine, so outside the lock
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.nodes[obj.Name]; have == nil || newer(obj.ResourceVersion, have.resourceVersion) {
		t.nodes[obj.Name] = read
	}
}

// remove forgets an object that was deleted at that version or later, unless it
// has been created again.
func (t *topologies) remove(node, resourceVersion string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if have := t.nodes[node]; have != nil && !newer(have.resourceVersion, resourceVersion) {
		delete(t.nodes, node)
	}
}

// newer reports whether version a replaces version b. What cannot be compared
// (test objects without a version) replaces whatever is there.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
