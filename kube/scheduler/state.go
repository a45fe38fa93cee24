package scheduler

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	generation int64 // of the NodeInfo
	// topology is what the node has reported, nil if it has not.
	topology *agents.Report
	// lasting is true if later cycles may use the state, and ranks from it, for this generation.
	lasting bool

	answers *answers
	books   *ledger.Books // nil if the topology is not usable
	pods    map[types.UID]*podEntry
	// exclusive and available replace the books if the topology is not usable: whether pods ask for CPUs of
	// their own, and the allocatable amount minus what all pods take.
	exclusive bool
	available ledger.MilliCPU
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

// podEntry is a pod on the node, and its entry in the books. It is kept while the pod's object and its
// allocation stay the same, because reading a pod costs more than booking it. Informers never change an
// object.
type podEntry struct {
	pod *corev1.Pod
	// allocated is set if the node's agent has allocated CPUs to it, and decided is when.
	allocated bool
	decided   time.Time
	claim     ledger.Claim
	// question is that of a pod that asks and has no allocation yet, else nil.
	question *question
}

func newEntry(pod *corev1.Pod, t *agents.Report) *podEntry {
	// On error, which the agent reports, the claim is the pod's request, as shared CPUs.
	claim, allocation, _ := t.Allocations().Claim(pod, t.Machine())
	e := &podEntry{pod: pod, claim: claim}
	if allocation != nil {
		e.allocated, e.decided = true, allocation.Time
	} else if q, err := newQuestion(pod); err == nil && q.asks && !api.HasEnded(pod) {
		e.question = &q
	}
	return e
}

// isOf reports whether the entry is also right for this object, and what the node reports now.
func (e *podEntry) isOf(pod *corev1.Pod, t *agents.Report) bool {
	if e == nil || e.pod != pod {
		return false
	}
	a, allocated := t.Allocations()[pod.UID]
	return e.allocated == allocated && e.decided.Equal(a.Time)
}

// derive builds a node's state from its topology and the pods on it. Pods that ask, and that the agent
// has not allocated CPUs to yet, are placed as it will.
func (p *Plugin) derive(node fwk.NodeInfo, t *agents.Report, use stateUse) *nodeState {
	s := &nodeState{generation: node.GetGeneration(), topology: t, answers: &answers{}, pods: make(map[types.UID]*podEntry, len(node.GetPods()))}
	claims := make([]ledger.Claim, 0, len(node.GetPods()))
	var waiting []*podEntry
	var nominated []*corev1.Pod
	for _, info := range node.GetPods() {
		pod := info.GetPod()
		switch {
		case pod.UID == use.without:
			continue
		case pod.Spec.NodeName == "":
			nominated = append(nominated, pod)
			continue
		}
		e := use.pods[pod.UID]
		if !e.isOf(pod, t) {
			e = newEntry(pod, t)
		}
		s.pods[pod.UID] = e
		if e.question != nil {
			waiting = append(waiting, e)
		} else {
			claims = append(claims, e.claim)
		}
	}
	s.virtual = len(nominated) > 0
	if !t.Usable() {
		s.sumUp(node, nominated)
		return s
	}
	config := ledger.Config{Reserved: t.State.Reserved(node.Node()), ReservedCPUs: t.State.ReservedCPUs,
		MinShared: *p.args.MinSharedCPUs, Decisions: use.trials + len(waiting) + len(nominated)}
	s.books = ledger.New(t.Index, config, claims...)
	slices.SortStableFunc(waiting, func(a, b *podEntry) int { // as the agent does
		return cmp.Or(a.question.borrows-b.question.borrows, api.CompareBound(a.pod, b.pod))
	})
	for _, e := range waiting {
		predicted := *e // the entry is shared with other states
		predicted.claim = s.predict(e.claim, e.question)
		s.pods[e.pod.UID] = &predicted
		s.books.Add(predicted.claim)
	}
	s.bookNominated(nominated)
	return s
}

// sumUp computes the amounts of a node without a usable topology. What a pod asks for beyond the whole
// node does not count.
func (s *nodeState) sumUp(node fwk.NodeInfo, nominated []*corev1.Pod) {
	allocatable := ledger.MilliCPU(node.Node().Status.Allocatable.Cpu().MilliValue())
	s.available = allocatable
	for _, e := range s.pods {
		if s.available -= e.claim.SharedRequest; e.question != nil && e.question.amount() <= allocatable {
			s.available += e.claim.SharedRequest - e.question.amount()
			s.exclusive = s.exclusive || e.question.cpus > 0
		}
	}
	for _, pod := range nominated {
		if q, err := newQuestion(pod); err == nil {
			s.available -= q.amount()
		}
	}
}

// fits checks the amounts of a node without a usable topology for a pod that does not ask. If no
// pod asks for exclusive CPUs, kube-scheduler's own checks suffice.
func (s *nodeState) fits(q *question) error {
	if need := q.amount(); s.exclusive && need > 0 && need > s.available {
		return &ledger.SharedError{Need: need, Have: max(0, s.available)}
	}
	return nil
}

// predict returns the claim with what a pod would be allocated now. If that is nothing, it is the claim as
// it is: what a pod asks for without getting it must not keep others off the node.
func (s *nodeState) predict(claim ledger.Claim, q *question) ledger.Claim {
	s.books.Add(ledger.Claim{ID: claim.ID})
	if decision, err := s.books.Decide(q.ask); err == nil {
		return decision.Claim(claim.ID, claim.Rank)
	}
	return claim
}

// bookNominated books the pods that will run on the node when their victims are gone. Pods of
// higher priority come first, so that the result does not depend on the order of their nomination.
func (s *nodeState) bookNominated(pods []*corev1.Pod) {
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range pods {
		if q, err := newQuestion(pod); err == nil { // else it cannot be bound until its annotations are changed
			s.books.Add(s.predict(ledger.Claim{ID: ledger.PodID(pod.UID), Rank: math.MaxInt64, SharedRequest: q.amount()}, &q))
		}
	}
}

// confirmedBy reports whether a later report of the node says nothing but what the state has predicted,
// so that the state stays right.
func (s *nodeState) confirmedBy(t *agents.Report) bool {
	if s.books == nil || !t.OnlyAllocated(s.topology) {
		return false
	}
	for uid, e := range s.pods {
		a, allocated := t.Allocations()[uid]
		switch {
		case allocated && e.allocated && e.decided.Equal(a.Time):
		case allocated && e.question != nil && matches(a, e.claim.Containers):
		case !allocated && !e.allocated:
		default:
			return false
		}
	}
	return true
}

// matches reports whether an allocation has the same CPUs or NUMA nodes as claims.
func matches(a api.Allocation, claims []ledger.ContainerClaim) bool {
	return slices.EqualFunc(a.Containers, claims, func(c api.ContainerAllocation, claim ledger.ContainerClaim) bool {
		return c.Name == claim.Name && a.Policy == claim.Policy && c.CPUs == claim.CPUs &&
			(a.Policy == placement.Static || slices.Equal(c.NUMANodes, claim.NUMANodes))
	})
}

// nodeStates caches the last state of every node, with the answers it has given. A NodeInfo gets a new
// generation with every change of its pods or node, which is never used again, not even for another
// node. Generation and topology address together identify the state of a node. A state stays when the
// agent publishes what was predicted. For many equal pods, each pod costs one new state, that of the
// node that took the previous pod.
//
// States are not cached if they are derived from a NodeInfo with pods added or removed for a trial:
// for nominated pods and preemption, where it has a generation of its own, and for pod groups, where
// it keeps the old one.
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
	// transient is true if the NodeInfo may differ from the scheduler's snapshot. trials is how many such
	// states this cycle has needed for preemption.
	transient bool
	trials    int
	// without is the UID of a pod to leave out: the pod that is being scheduled, if it is on the
	// node already. "" leaves out none.
	without types.UID
	// pods are those of the node's last state.
	pods map[types.UID]*podEntry
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
	if lasting && last != nil && last.generation == node.GetGeneration() && last.confirmedBy(topology) {
		confirmed := *last
		confirmed.topology = topology
		kept.last.Store(&confirmed)
		return &confirmed
	}
	if last != nil && topology.Usable() && last.topology.Usable() && last.topology.Index == topology.Index {
		use.pods = last.pods
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
	if last == nil || last.pods[pod.UID] == nil {
		return ledger.Claim{}, false
	}
	e := last.pods[pod.UID]
	return e.claim, e.pod == pod
}

// published drops the ranks that depend on what a node's agent had published before.
func (p *Plugin) published(node string) {
	if last := p.nodes.kept(node).last.Load(); last != nil {
		p.ranks.drop(last.generation)
	}
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
// than the decision.
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
