package scheduler

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler/agents"
)

// nodeState holds the books of one version of a node.
type nodeState struct {
	generation int64          // of the NodeInfo
	topology   *agents.Report // nil if the node has reported none
	// lasting is true if later cycles may use the state, and ranks from it, for this generation.
	lasting bool

	answers answers
	books   *ledger.Books // nil if the topology is not usable
	claims  claimCache
	// exclusive and left replace the books if the topology is not usable: the number of exclusive
	// CPUs, and the allocatable amount minus those and all requests.
	exclusive int
	left      ledger.MilliCPU
	// virtual is true if the books contain pods that are not on the node yet.
	virtual bool
}

// answer rates the node for pods with this question.
func (s *nodeState) answer(q *question) answer {
	return s.answers.of(q.key, func() answer {
		quality, err := s.books.Rate(q.ask)
		exclusive, shared := s.books.Exclusive().Len(), s.books.Shared().Len()
		taken := ledger.MilliCPU(exclusive)*1000 + s.books.SharedRequests() + q.amount()
		return answer{err: err, quality: quality, use: min(int(taken)/max(exclusive+shared, 1), fullUse)}
	})
}

// claimCache holds the claims of bound pods, because parsing an allocation costs more than booking
// it. Without it, a pod takes the scheduler 17% more CPU time at 1,000 nodes and 10% more at 5,000
// (2 cores, 2026-11-22). An entry is valid for one pod object: informers never change an object.
type claimCache map[types.UID]podClaim

type podClaim struct {
	pod   *corev1.Pod
	claim ledger.Claim
}

// derive builds a node's state from its topology and the pods on it.
func (p *Plugin) derive(node fwk.NodeInfo, t *agents.Report, use stateUse) *nodeState {
	s := &nodeState{generation: node.GetGeneration(), topology: t, claims: make(claimCache, len(node.GetPods()))}
	claims := make([]ledger.Claim, 0, len(node.GetPods()))
	var nominated []*corev1.Pod
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		switch {
		case pod.UID == use.without:
		case pod.Spec.NodeName == "":
			nominated = append(nominated, pod)
		default:
			claims = append(claims, p.claimOf(s, pod, t, use.claims))
		}
	}
	s.virtual = len(nominated) > 0
	if !t.Usable() {
		s.sumUp(node, claims, nominated)
		return s
	}
	config := ledger.Config{Reserved: api.Reserved(node.Node()), ReservedCPUs: t.State.ReservedCPUs, MinShared: *p.args.MinSharedCPUs}
	s.books = ledger.New(t.Index, config, claims...)
	s.bookNominated(nominated)
	return s
}

// sumUp computes the amounts of a node without a usable topology.
func (s *nodeState) sumUp(node fwk.NodeInfo, claims []ledger.Claim, nominated []*corev1.Pod) {
	exclusive, requests := ledger.Amounts(claims)
	for _, pod := range nominated {
		if q, err := newQuestion(pod); err == nil {
			requests += q.amount()
		}
	}
	s.exclusive = exclusive.Len()
	s.left = ledger.MilliCPU(node.Node().Status.Allocatable.Cpu().MilliValue()) - ledger.MilliCPU(s.exclusive)*1000 - requests
}

// fits checks the amounts of a node without a usable topology for a pod that does not ask. If no
// pod has exclusive CPUs, kube-scheduler's own checks suffice.
func (s *nodeState) fits(q *question) error {
	if need := q.amount(); s.exclusive > 0 && need > 0 && need > s.left {
		return &ledger.SharedError{Need: need, Have: max(0, s.left)}
	}
	return nil
}

// claimOf returns the claim of a pod that is bound to the node or assumed to be.
func (p *Plugin) claimOf(s *nodeState, pod *corev1.Pod, t *agents.Report, known claimCache) ledger.Claim {
	if res, ok := p.shared.reservations.of(pod); ok {
		return res.claim
	}
	entry, ok := known[pod.UID]
	if !ok || entry.pod != pod {
		// On error, which package audit reports, the claim is the pod's request, as shared CPUs.
		claim, _, _ := t.Given().ClaimAndAllocation(p.shared.signer.Keys, pod, t.Machine())
		if t.Given() == nil { // an agent's clock is not trusted
			p.shared.signer.Saw(claim.Rank)
		}
		entry = podClaim{pod, claim}
		p.shared.reservations.arrived(pod)
	}
	s.claims[pod.UID] = entry
	return entry.claim
}

// bookNominated books the pods that will run on the node when their victims are gone. Pods of
// higher priority come first, so that the result does not depend on the order of their nomination.
func (s *nodeState) bookNominated(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range pods {
		s.books.Add(s.virtualClaim(pod))
	}
}

// virtualClaim returns what a nominated pod would be given now. It may not fit while its victims
// hold their CPUs. Then it claims its amount as shared CPUs, so that no other pod takes what is
// already free for it.
func (s *nodeState) virtualClaim(pod *corev1.Pod) ledger.Claim {
	claim := ledger.Claim{ID: ledger.PodID(pod.UID), Rank: math.MaxInt64}
	q, err := newQuestion(pod)
	if err != nil {
		return claim // it cannot be bound until its annotations are changed
	}
	if decision, err := s.books.Decide(q.ask); err == nil {
		return decision.Claim(claim.ID, claim.Rank)
	}
	claim.SharedRequest = q.amount()
	return claim
}

// nodeStates caches the last state of every node.
type nodeStates struct {
	derive func(node fwk.NodeInfo, topology *agents.Report, use stateUse) *nodeState
	byName sync.Map // of *keptNode
}

// keptNode holds the last state of one node. Filter runs for many nodes in parallel, and most of
// them have not changed, so reading takes no lock.
type keptNode struct {
	last atomic.Pointer[nodeState]
	mu   sync.Mutex // held while a state is derived
}

func (s *nodeState) isFor(node fwk.NodeInfo, topology *agents.Report) bool {
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
func (n *nodeStates) stateOf(node fwk.NodeInfo, topology *agents.Report, use stateUse) *nodeState {
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

// claimOf returns the pod's claim in the last state of its node. It returns false if the pod was
// not on the node then, or has changed since.
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
