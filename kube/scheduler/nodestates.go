package scheduler

import (
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
)

// nodeStates caches the last state of every node.
type nodeStates struct {
	derive func(node fwk.NodeInfo, topology *nodeTopology, use stateUse) *nodeState
	byName sync.Map // of *keptNode
}

// keptNode holds the last state of one node. Filter runs for many nodes in parallel, and most of
// them have not changed, so reading takes no lock.
type keptNode struct {
	last atomic.Pointer[nodeState]
	mu   sync.Mutex // held while a state is derived
}

func (s *nodeState) isFor(node fwk.NodeInfo, topology *nodeTopology) bool {
	return s != nil && s.topology == topology && s.generation == node.GetGeneration()
}

// stateUse describes what a state is needed for.
type stateUse struct {
	// transient is true if the NodeInfo may differ from the scheduler's snapshot.
	transient bool
	// without is the UID of a pod to leave out: the pod that is being scheduled, if it is on the
	// node already. "" leaves out none.
	without types.UID
	// claims are those of the node's last state.
	claims claimCache
}

// stateOf returns the state of a node with this topology, which is nil if it has reported none.
func (n *nodeStates) stateOf(node fwk.NodeInfo, topology *nodeTopology, use stateUse) *nodeState {
	lasting := !use.transient && use.without == ""
	kept := n.kept(node.Node().Name)
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
	if state.lasting = lasting && !state.virtual; state.lasting {
		kept.last.Store(state)
	}
	return state
}

// claimOf returns the pod's claim in the last state of its node. It returns false if the pod was not
// on the node then, or has changed since.
func (n *nodeStates) claimOf(node *corev1.Node, pod *corev1.Pod) (ledger.Claim, bool) {
	last := n.kept(node.Name).last.Load()
	if last == nil {
		return ledger.Claim{}, false
	}
	entry, ok := last.claims[pod.UID]
	return entry.claim, ok && entry.pod == pod
}

func (n *nodeStates) kept(name string) *keptNode {
	kept, ok := n.byName.Load(name)
	if !ok {
		kept, _ = n.byName.LoadOrStore(name, &keptNode{})
	}
	return kept.(*keptNode)
}

// forget drops the state of a deleted node.
func (n *nodeStates) forget(name string) { n.byName.Delete(name) }

// answer is what Filter and Score need to know about a node for one question. It is much smaller
// than the decision, which Reserve computes for the chosen node only.
type answer struct {
	err     error
	quality placement.Quality
	use     int // of the node with the pod on it, in thousandths
}

// maxAnswers bounds the memory of a node that many different pods wait for.
const maxAnswers = 256

// answers caches a node's answers by the key of the question.
type answers struct {
	mu    sync.Mutex
	known map[string]answer
}

func (a *answers) of(key string, decide func() answer) answer {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, ok := a.known[key]
	if !ok {
		if a.known == nil || len(a.known) >= maxAnswers {
			a.known = map[string]answer{}
		}
		known = decide()
		a.known[key] = known
	}
	return known
}
