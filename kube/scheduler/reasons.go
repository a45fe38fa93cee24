package scheduler

import (
	"fmt"
	"sync"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
)

// The message of a pod that fits nowhere is composed by the framework: it counts
// how many nodes gave the same reason, word for word, and writes "2 REASON, 1
// REASON". Reasons that name the best node, "have fewer than 8 exclusive CPUs left
// (most: 6 on n2)", are only known when all nodes have been asked, and must then be
// the same on all of them. So a node's status carries a [nodeReason], which is put
// into words when the message is composed, after all nodes have reported to the
// [report] of the scheduling cycle.

// shortage says what is wrong with a node, apart from figures.
type shortage struct {
	kind shortageKind
	want int64  // what the pod needs: CPUs, or thousandths of one for noShared
	text string // for badKubelet, the policy
}

type shortageKind int

const (
	noTopology    shortageKind = iota // the node has reported no topology
	badTopology                       // one that cannot be used
	silentAgent                       // the agent does not report
	failingAgent                      // the agent says that it can enforce nothing
	badKubelet                        // the kubelet binds CPUs itself
	tooSmall                          // fewer CPUs than the pod needs
	noExclusive                       // fewer CPUs left that can be exclusive
	noWholeCores                      // fewer of them in whole cores
	noConfinement                     // no NUMA nodes with enough shared CPUs
	noShared                          // the shared CPUs are promised to others
	oddCores                          // free whole cores do not add up to so many
)

// words are the reason without its number of nodes: for one node and for several,
// and what the figure in parentheses is of.
func (s shortage) words() (one, several string) {
	switch s.kind {
	case noTopology:
		return "has not reported its CPU topology", "have not reported their CPU topology"
	case badTopology:
		return "has reported a CPU topology that cannot be used", "have reported CPU topologies that cannot be used"
	case silentAgent:
		return "has a Pinfold agent that has not reported", "have Pinfold agents that have not reported"
	case failingAgent:
		return "has a Pinfold agent that cannot enforce anything", "have Pinfold agents that cannot enforce anything"
	case badKubelet:
		policy := fmt.Sprintf("a kubelet with CPU manager policy %q, which must be \"none\"", s.text)
		return "has " + policy, "have " + policy
	case tooSmall:
		return have("fewer than %d CPUs", s.want)
	case noExclusive:
		return have("fewer than %d exclusive CPUs left", s.want)
	case noWholeCores:
		return have("fewer than %d exclusive CPUs left in whole cores", s.want)
	case oddCores:
		return have("no free whole cores that make exactly %d CPUs", s.want)
	case noConfinement:
		return have("fewer than %d shared CPUs left for it on few NUMA nodes", s.want)
	default:
		return have("less than %v shared CPUs left", ledger.MilliCPU(s.want))
	}
}

func have[T any](format string, want T) (one, several string) {
	text := fmt.Sprintf(format, want)
	return "has " + text, "have " + text
}

// hasFigure tells whether findings of this kind carry one.
func (k shortageKind) hasFigure() bool { return k >= tooSmall && k <= noShared }

// resolvable tells whether the eviction of pods can help.
func (k shortageKind) resolvable() bool { return k >= noExclusive }

// finding is what one node has instead.
type finding struct {
	shortage
	have   int64  // where the kind has a figure
	detail string // where there is more to say of the node: what is wrong with its topology
}

// report collects what is wrong with the nodes in one scheduling cycle.
type report struct {
	refused atomic.Bool // by any node
	mu      sync.Mutex
	nodes   map[string]finding
}

func newReport() *report { return &report{nodes: map[string]finding{}} }

// first reports whether it is called for the first time.
func (r *report) first() bool { return !r.refused.Load() && !r.refused.Swap(true) }

// status records what is wrong with a node and returns the status that says so.
func (r *report) status(node string, f finding) *fwk.Status {
	r.mu.Lock()
	r.nodes[node] = f
	r.mu.Unlock()
	code := fwk.UnschedulableAndUnresolvable
	if f.kind.resolvable() {
		code = fwk.Unschedulable
	}
	return fwk.NewStatus(code).WithError(&nodeReason{report: r, shortage: f.shortage})
}

// nodeReason is a reason whose words depend on what other nodes report.
type nodeReason struct {
	report *report
	shortage
}

func (n *nodeReason) Error() string { return n.report.describe(n.shortage) }

// describe puts a shortage into words, with the best figure or the first detail of
// the nodes that have it.
func (r *report) describe(s shortage) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	count, best := 0, ""
	for node, f := range r.nodes {
		if f.shortage != s {
			continue
		}
		count++
		if best == "" || f.have > r.nodes[best].have || f.have == r.nodes[best].have && node < best {
			best = node
		}
	}
	text, several := s.words()
	if count > 1 {
		text = several
	}
	f := r.nodes[best]
	switch {
	case count == 0:
		return text
	case s.kind == noShared:
		return fmt.Sprintf("%s (most: %v on %s)", text, ledger.MilliCPU(f.have), best)
	case s.kind.hasFigure():
		return fmt.Sprintf("%s (most: %d on %s)", text, f.have, best)
	case f.detail != "":
		return fmt.Sprintf("%s (%s)", text, f.detail)
	default:
		return text
	}
}
