package scheduler

import (
	"cmp"
	"math"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
)

// nodeState is what there is to know of a node for decisions about pods: its books,
// and the answers that have been given from them.
type nodeState struct {
	// What the state was made from.
	generation int64
	topology   *nodeTopology

	last    atomic.Pointer[answer] // of the pods that are being scheduled
	answers *answers
	books   *ledger.Books // nil while the topology is not usable
	claims  claimCache
	// exclusive and left stand for the books: how many CPUs belong to one pod each, and
	// what is left of the allocatable amount beside them and all requests.
	exclusive int
	left      ledger.MilliCPU
	// virtual is true when pods are booked that are not on the node yet.
	virtual bool
}

// answer tells whether and how well the pods of this question can be taken.
func (s *nodeState) answer(q *question) *answer {
	if last := s.last.Load(); last != nil && last.key == q.key {
		return last
	}
	s.answers.mu.Lock()
	defer s.answers.mu.Unlock()
	a := s.answers.find(q.key)
	if a == nil {
		quality, err := s.books.Rate(q.ask)
		a = s.answers.add(answer{key: q.key, err: err, quality: quality, use: s.useWith(q)})
	}
	s.last.Store(a)
	return a
}

func (s *nodeState) useWith(q *question) int {
	exclusive, shared := s.books.Exclusive().Len(), s.books.Shared().Len()
	taken := ledger.MilliCPU(exclusive)*1000 + s.books.SharedRequests() + q.amount()
	return min(int(taken)/max(exclusive+shared, 1), fullUse)
}

// claimCache keeps what bound pods claim, because reading an allocation costs more
// than booking it. A pod's claim holds as long as the pod is the same object.
type claimCache map[types.UID]readClaim

type readClaim struct {
	pod   *corev1.Pod
	claim ledger.Claim
}

// derive makes the state of a node from its topology and the pods on it.
func (p *Plugin) derive(node fwk.NodeInfo, t *nodeTopology, use stateUse) *nodeState {
	s := &nodeState{
		generation: node.GetGeneration(),
		topology:   t,
		claims:     make(claimCache, len(node.GetPods())),
	}
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
	if !t.usable() {
		s.sumUp(node, claims, nominated)
		return s
	}
	s.books = ledger.New(t.index, bookConfig(node.Node(), t, *p.args.MinSharedCPUs), claims...)
	s.bookNominated(nominated)
	s.answers = p.situations.of(s.books.Situation())
	return s
}

// sumUp does without a topology.
func (s *nodeState) sumUp(node fwk.NodeInfo, claims []ledger.Claim, nominated []*corev1.Pod) {
	s.virtual = len(nominated) > 0
	exclusive, requests := ledger.Amounts(claims)
	for _, pod := range nominated {
		if q, err := newQuestion(pod); err == nil {
			requests += q.amount()
		}
	}
	s.exclusive = exclusive.Len()
	s.left = ledger.MilliCPU(node.Node().Status.Allocatable.Cpu().MilliValue()) - ledger.MilliCPU(s.exclusive)*1000 - requests
}

// fits reports whether a pod that does not ask can be taken by the amounts alone. Where no
// pod has CPUs of its own, kube-scheduler's own checks suffice.
func (s *nodeState) fits(q *question) error {
	if need := q.amount(); s.exclusive > 0 && need > 0 && need > s.left {
		return &ledger.SharedError{Need: need, Have: max(0, s.left)}
	}
	return nil
}

// bookConfig is what a node keeps back.
func bookConfig(node *corev1.Node, t *nodeTopology, minShared int) ledger.Config {
	return ledger.Config{
		Reserved:     ledger.MilliCPU(reservedCPU(node)),
		ReservedCPUs: t.state.ReservedCPUs,
		MinShared:    minShared,
	}
}

// reservedCPU is what the node keeps for the system, in thousandths of a CPU.
func reservedCPU(node *corev1.Node) int64 {
	return max(0, node.Status.Capacity.Cpu().MilliValue()-node.Status.Allocatable.Cpu().MilliValue())
}

// claimOf is the claim of a pod that is on the node, or is assumed to be.
func (p *Plugin) claimOf(s *nodeState, pod *corev1.Pod, t *nodeTopology, known claimCache) ledger.Claim {
	if res, ok := p.shared.reservations.of(pod); ok {
		return res.claim
	}
	read, ok := known[pod.UID]
	if !ok || read.pod != pod {
		// An error is the auditor's matter: the claim is then all that the pod
		// requests, of the shared CPUs.
		claim, _ := p.shared.signing.keys.Claim(pod, t.machine())
		if p.shared.signing.keys != nil {
			p.shared.signing.saw(claim.Rank)
		}
		read = readClaim{pod, claim}
		p.shared.reservations.arrived(pod)
	}
	s.claims[pod.UID] = read
	return read.claim
}

// bookNominated books the pods that are to run on the node once their victims are
// gone: those of higher priority first, so that the answer does not depend on the
// order in which they were nominated.
func (s *nodeState) bookNominated(pods []*corev1.Pod) {
	s.virtual = len(pods) > 0
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(corev1helpers.PodPriority(b), corev1helpers.PodPriority(a)),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	for _, pod := range pods {
		s.books.Add(s.virtualClaim(pod))
	}
}

// virtualClaim is what a nominated pod would be given now. While its victims hold
// their CPUs that may be nothing; then the amount counts, so that no other pod takes
// what is left of it meanwhile.
func (s *nodeState) virtualClaim(pod *corev1.Pod) ledger.Claim {
	claim := ledger.Claim{ID: ledger.PodID(pod.UID), Rank: math.MaxInt64}
	q, err := newQuestion(pod)
	if err != nil {
		return claim // it will not be bound before its words are changed
	}
	if decision, err := s.books.Decide(q.ask); err == nil {
		return decision.Claim(claim.ID, claim.Rank)
	}
	claim.SharedRequest = q.amount()
	return claim
}
