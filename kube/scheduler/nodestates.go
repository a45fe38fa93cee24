package scheduler

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
)

// nodeStates keeps the last state of every node.
type nodeStates struct {
	derive func(node fwk.NodeInfo, topology *nodeTopology, use stateUse) *nodeState
	byName sync.Map // string to *keptState
}

// keptState is one node's, with a lock of its own, because Filter asks about many
// nodes at once.
type keptState struct {
	mu         sync.Mutex
	generation int64
	topology   *nodeTopology
	state      *nodeState
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
	kept.mu.Lock()
	defer kept.mu.Unlock()
	generation := node.GetGeneration()
	if use.without == "" && !use.transient && kept.state != nil &&
		kept.generation == generation && kept.topology == topology {
		return kept.state
	}
	if kept.state != nil && kept.topology == topology {
		use.claims = kept.state.claims
	}
	state := n.derive(node, topology, use)
	if use.without == "" && !use.transient && !state.virtual {
		kept.generation, kept.topology, kept.state = generation, topology, state
	}
	return state
}

func (n *nodeStates) kept(name string) *keptState {
	if kept, ok := n.byName.Load(name); ok {
		return kept.(*keptState)
	}
	kept, _ := n.byName.LoadOrStore(name, &keptState{})
	return kept.(*keptState)
}

// forget drops what is kept of a node that is gone.
func (n *nodeStates) forget(name string) { n.byName.Delete(name) }
