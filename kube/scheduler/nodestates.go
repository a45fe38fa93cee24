package scheduler

import (
	"maps"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
)

// nodeStates keeps the last state of every node.
type nodeStates struct {
	derive     func(node fwk.NodeInfo, topology *nodeTopology, use stateUse) *nodeState
	topologies *topologies

	// byName is read for every node and pod, and changes with the nodes only: it is
	// replaced, never changed.
	byName atomic.Pointer[map[string]*keptNode]
	mu     sync.Mutex // held while byName is replaced
}

// keptNode is one node's. Filter asks about many nodes at once, and mostly about
// nodes that have not changed, so reading takes no lock.
type keptNode struct {
	last     atomic.Pointer[nodeState]
	topology atomic.Pointer[nodeTopology] // when so many topologies had changed as `seen` says
	seen     atomic.Uint64
	mu       sync.Mutex // held while a state is made, or the topology is looked up
}

func (s *nodeState) isFor(node fwk.NodeInfo, topology *nodeTopology) bool {
	return s != nil && s.topology == topology && s.generation == node.GetGeneration()
}

// stateUse is what a state is wanted for.
type stateUse struct {
	// transient is true when the NodeInfo is not, or may not be, the one of the
	// scheduler's snapshot.
	transient bool
	// without is a pod that is not counted: the one that is being decided about,
	// where it is on the node already. "" leaves nobody out.
	without types.UID
	// claims are those of the pods on the node at the last time.
	claims claimCache
}

func newNodeStates(topologies *topologies, derive func(fwk.NodeInfo, *nodeTopology, stateUse) *nodeState) *nodeStates {
	n := &nodeStates{topologies: topologies, derive: derive}
	n.byName.Store(&map[string]*keptNode{})
	return n
}

// find returns what is kept of a node, and its topology, with one look-up by name as
// long as no topology changes. The topology is nil when the node has reported none.
func (n *nodeStates) find(node *corev1.Node) (*keptNode, *nodeTopology) {
	name := node.Name
	kept := n.kept(name)
	now := n.topologies.changes.Load() // while there were none, no node has a topology
	if kept.seen.Load() != now {
		kept.mu.Lock()
		kept.topology.Store(n.topologies.get(name)) // of now, or later
		kept.seen.Store(now)
		kept.mu.Unlock()
	}
	if t := kept.topology.Load(); t != nil && t.isOf(node) {
		return kept, t
	}
	return kept, nil
}

// stateOf returns the state of a node with this topology, nil where it has reported none.
func (n *nodeStates) stateOf(kept *keptNode, node fwk.NodeInfo, topology *nodeTopology, use stateUse) *nodeState {
	lasting := !use.transient && use.without == ""
	last := kept.last.Load()
	if lasting && last.isFor(node, topology) {
		return last
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if last = kept.last.Load(); lasting && last.isFor(node, topology) {
		return last
	}
	if last != nil && last.topology == topology {
		use.claims = last.claims
	}
	state := n.derive(node, topology, use)
	if lasting && !state.virtual {
		kept.last.Store(state)
	}
	return state
}

// claimOf returns what a pod claimed in the last state of its node, false when it was not
// there, or has changed since.
func (n *nodeStates) claimOf(node *corev1.Node, pod *corev1.Pod) (ledger.Claim, bool) {
	last := n.kept(node.Name).last.Load()
	if last == nil {
		return ledger.Claim{}, false
	}
	read, ok := last.claims[pod.UID]
	return read.claim, ok && read.pod == pod
}

func (n *nodeStates) kept(name string) *keptNode {
	if kept, ok := (*n.byName.Load())[name]; ok {
		return kept
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if kept, ok := (*n.byName.Load())[name]; ok {
		return kept
	}
	// Where one node is new, others are: at the start, all of them.
	larger := maps.Clone(*n.byName.Load())
	for _, node := range append(n.topologies.names(), name) {
		if larger[node] == nil {
			larger[node] = &keptNode{}
		}
	}
	n.byName.Store(&larger)
	return larger[name]
}

// forget drops what is kept of a node that is gone.
func (n *nodeStates) forget(name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	smaller := maps.Clone(*n.byName.Load())
	delete(smaller, name)
	n.byName.Store(&smaller)
}
