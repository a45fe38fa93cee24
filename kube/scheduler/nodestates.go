package scheduler

import (
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// nodeStates keeps the last state of every node.
type nodeStates struct {
	derive func(node fwk.NodeInfo, topology *nodeTopology, use stateUse) *nodeState
	byName sync.Map // string to *keptNode
}

// keptNode is one node's. Filter asks about many nodes at once, and mostly about
// nodes that have not changed, so reading takes no lock.
type keptNode struct {
	last atomic.Pointer[keptState]
	mu   sync.Mutex // held while a state is made
}

// keptState is a state with what it was made from.
type keptState struct {
	generation int64
	topology   *nodeTopology
	state      *nodeState
}

func (k *keptState) isFor(node fwk.NodeInfo, topology *nodeTopology) bool {
	return k != nil && k.topology == topology && k.generation == node.GetGeneration()
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

func newNodeStates(derive func(fwk.NodeInfo, *nodeTopology, stateUse) *nodeState) *nodeStates {
	return &nodeStates{derive: derive}
}

// of returns the state of a node whose topology is known.
func (n *nodeStates) of(node fwk.NodeInfo, topology *nodeTopology, use stateUse) *nodeState {
	kept := n.kept(node.Node().Name)
	lasting := !use.transient && use.without == ""
	last := kept.last.Load()
	if lasting && last.isFor(node, topology) {
		return last.state
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	if last = kept.last.Load(); lasting && last.isFor(node, topology) {
		return last.state
	}
	if last != nil && last.topology == topology {
		use.claims = last.state.claims
	}
	state := n.derive(node, topology, use)
	if lasting && !state.virtual {
		kept.last.Store(&keptState{node.GetGeneration(), topology, state})
	}
	return state
}

func (n *nodeStates) kept(name string) *keptNode {
	if kept, ok := n.byName.Load(name); ok {
		return kept.(*keptNode)
	}
	kept, _ := n.byName.LoadOrStore(name, &keptNode{})
	return kept.(*keptNode)
}

// forget drops what is kept of a node that is gone.
func (n *nodeStates) forget(name string) { n.byName.Delete(name) }
