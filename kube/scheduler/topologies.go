package scheduler

import (
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
	// machine and its index are nil when err is not. The index may be of another
	// machine that differs in its memory only.
	machine *topology.Machine
	index   *placement.Index
	state   nodetopology.State
	// err says why the object cannot be used.
	err error
}

func (t *topologies) read(obj *v1alpha2.NodeResourceTopology) *nodeTopology {
	read := &nodeTopology{resourceVersion: obj.ResourceVersion}
	if read.machine, read.state, read.err = nodetopology.ToMachine(obj); read.err == nil {
		read.index = t.indexes.of(read.machine)
	}
	return read
}

// topologies holds the topology of every node that has reported one. It is fed by
// an informer and, so that a pod that is queued again because of an object is
// judged by that object, by the queueing hints.
type topologies struct {
	indexes *indexes
	nodes   sync.Map   // name to *nodeTopology; every node is looked up for every pod
	mu      sync.Mutex // held while nodes or gone changes
	// gone is the version at which an object was deleted. One of the two that feed
	// may be behind the other, and bring an object once more that is gone.
	gone map[string]string
}

func newTopologies() *topologies {
	return &topologies{indexes: newIndexes(), gone: map[string]string{}}
}

// get returns nil when the node has reported nothing.
func (t *topologies) get(node string) *nodeTopology {
	if found, ok := t.nodes.Load(node); ok {
		return found.(*nodeTopology)
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
	t.nodes.Store(obj.Name, read)
	delete(t.gone, obj.Name)
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
	t.gone[node] = resourceVersion
}

// newer reports whether version a replaces version b. What cannot be compared
// (test objects without a version) replaces whatever is there.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
