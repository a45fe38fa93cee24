package scheduler

import (
	"fmt"
	"sync"
	"sync/atomic"

	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/ledger"
)

// The framework composes the message of a pod that fits no node. It counts the nodes that gave
// exactly the same reason and writes "2 REASON, 1 REASON". A reason that names the best node, for
// example "have fewer than 8 exclusive CPUs left (most: 6 on n2)", must be the same for all these
// nodes, but is only known when all nodes have been filtered. So a node's status carries a
// [nodeReason], which produces its text when the message is composed, from the [report] of the
// scheduling cycle.

// shortage describes why a node cannot take a pod, without the node's own figures.
type shortage struct {
	kind shortageKind
	want int64  // what the pod needs: CPUs, or thousandths of a CPU for noShared
	text string // for badKubelet: the policy
}

type shortageKind int

const (
	noTopology     shortageKind = iota // the node has reported no topology
	badTopology                        // the topology cannot be used
	silentAgent                        // the agent does not report
	observingAgent                     // the agent only observes
	failingAgent                       // the agent cannot enforce anything
	badKubelet                         // the kubelet binds CPUs itself
	starvedBatch                       // batch pods have next to no CPU time there
	oldAgent                           // the agent does not allocate CPUs
	tooSmall                           // the machine has fewer CPUs than the pod needs
	noExclusive                        // too few CPUs can be exclusive
	noWholeCores                       // too few of them are in whole cores
	noConfinement                      // no NUMA nodes have enough shared CPUs
	noShared                           // the shared CPUs are requested by other pods
	oddCores                           // no set of free whole cores has exactly the wanted size
	gaveUp                             // the search for the CPUs exceeded its budget
)

// texts returns the reason without the number of nodes, for one node and for several.
func (s shortage) texts() (one, several string) {
	switch s.kind {
	case noTopology:
		return "has not reported its CPU topology", "have not reported their CPU topology"
	case badTopology:
		return "has reported a CPU topology that cannot be used", "have reported CPU topologies that cannot be used"
	case silentAgent:
		return "has a Pinfold agent that has not reported", "have Pinfold agents that have not reported"
	case observingAgent:
		return "has a Pinfold agent that only observes", "have Pinfold agents that only observe"
	case failingAgent:
		return "has a Pinfold agent that cannot enforce anything", "have Pinfold agents that cannot enforce anything"
	case badKubelet:
		return have("a kubelet with CPU manager policy %q, which must be \"none\"", s.text)
	case starvedBatch:
		return "has no CPU time left for batch pods", "have no CPU time left for batch pods"
	case oldAgent:
		return "has a Pinfold agent of an earlier version, which allocates no CPUs: upgrade it", "have Pinfold agents of an earlier version, which allocate no CPUs: upgrade them"
	case tooSmall:
		return have("fewer than %d CPUs", s.want)
	case noExclusive:
		return have("fewer than %d exclusive CPUs left", s.want)
	case noWholeCores:
		return have("fewer than %d exclusive CPUs left in whole cores", s.want)
	case oddCores:
		return have("no free whole cores that make exactly %d CPUs", s.want)
	case gaveUp:
		return have("too many ways to choose %d CPUs", s.want)
	case noConfinement:
		return have("fewer than %d shared CPUs left for it on few NUMA nodes", s.want)
	default:
		return have("less than %v shared CPUs left", ledger.MilliCPU(s.want))
	}
}

func have(format string, want any) (one, several string) {
	text := fmt.Sprintf(format, want)
	return "has " + text, "have " + text
}

// hasFigure reports whether findings of this kind have a figure.
func (k shortageKind) hasFigure() bool { return k >= tooSmall && k <= noShared }

// resolvable reports whether evicting pods can help.
func (k shortageKind) resolvable() bool { return k >= noExclusive }

// finding is a shortage with the figure of one node.
type finding struct {
	shortage
	have   int64  // if the kind has a figure, in the unit of want
	detail string // of this node, for example the error in its topology
}

// report collects the findings of one scheduling cycle.
type report struct {
	refused atomic.Bool // by any node
	mu      sync.Mutex
	nodes   map[string]finding
}

func newReport() *report { return &report{nodes: map[string]finding{}} }

// first reports whether this is the first call.
func (r *report) first() bool { return !r.refused.Load() && !r.refused.Swap(true) }

// status records a node's finding and returns it as a status.
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

// nodeReason is a reason whose text depends on the findings of other nodes.
type nodeReason struct {
	report *report
	shortage
}

func (n *nodeReason) Error() string { return n.report.describe(n.shortage) }

// describe returns the text of a shortage, with the best figure or the first detail of the nodes
// that have it. The first node is the one with the smallest name.
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
	text, several := s.texts()
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
