package allocate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
)

// Repack is how much better its CPUs must get for a running pod to be moved.
type Repack string

// The margins. Each includes those before it.
const (
	// RepackNone moves no pod.
	RepackNone Repack = "none"
	// RepackCores moves a pod that gets fewer designs of core, NUMA nodes or split cores.
	RepackCores Repack = "cores"
	// RepackLLCs also moves one that gets as many of these and fewer last-level caches.
	RepackLLCs Repack = "llcs"
	// RepackNUMA also moves containers to NUMA nodes that they have no CPUs of. Their memory stays
	// where it is.
	RepackNUMA Repack = "numa-nodes"
)

// moveEvery is the least time between two moves, and for which a pod keeps its CPUs.
const moveEvery = time.Minute

// Move allocates better CPUs to a running pod.
type Move struct {
	Pod      *corev1.Pod
	Text     string // what changes, and why
	at       int    // in Round.Pods
	from, to api.Allocation
	criteria []criterion
}

// criterion is one of those of package placement. Less is better.
type criterion struct {
	name          string
	before, after int
}

// compare returns the criteria, the most important first.
func compare(before, after placement.Quality) []criterion {
	return []criterion{
		{"designs of core", before.Kinds, after.Kinds}, {"NUMA nodes", before.NUMANodes, after.NUMANodes},
		{"distance between NUMA nodes", before.Distance, after.Distance},
		{"split cores", before.SplitCores, after.SplitCores}, {"last-level caches", before.LLCs, after.LLCs},
	}
}

// moveOne moves the pod whose CPUs get better by most, if that is worth it. It looks for one once in
// moveEvery, and first that long after the start, so that an earlier agent counts. The CPUs of the
// others stay the same, so moves end when no pod does.
func (c *Controller) moveOne(n node) {
	if c.repack == RepackNone || n.Now.Sub(c.looked) < moveEvery {
		return
	}
	c.looked = n.Now
	n.books = c.books(n.Round, len(c.allocated))
	if n.Failed || len(n.books.Conflicts()) > 0 {
		return
	}
	var best *Move
	for at := range n.Pods {
		if m := c.moveOf(n, at); m != nil && (best == nil || m.exceeds(best)) {
			best = m
		}
	}
	if best != nil && c.put(n, best.at, best.to) == nil {
		c.moved = best
	}
}

// moveOf returns the move of a pod to the best CPUs, or nil if it must stay or that is not worth it.
func (c *Controller) moveOf(n node, at int) *Move {
	s := &n.Pods[at]
	uid := s.Object.UID
	from, given := c.allocated[uid]
	before := from.CPUs()
	settled := given && len(from.Claims) == 0 && from.Policy == placement.Static && n.Now.Sub(from.Time) >= moveEvery && before.IsSubsetOf(n.Online) &&
		s.Object.Status.Phase == corev1.PodRunning && !s.Departed && c.problems[uid] == nil && !s.MayResize()
	intent, err := api.Parse(s.Object)
	if !settled || err != nil || !intent.MayMove || intent.Ask.Policy != from.Policy {
		return nil
	}
	machine := n.Index.Machine()
	if intent.Ask.Within = allowed(n.Round, s, n.Online); c.repack != RepackNUMA {
		intent.Ask.Within = intent.Ask.Within.Intersection(machine.CPUsOfNUMA(machine.NUMANodesOf(before)...))
	}
	n.books.Add(ledger.Claim{ID: ledger.PodID(uid)})
	decision, err := n.books.Decide(intent.Ask)
	n.books.Add(c.claims[uid])
	if err != nil {
		return nil
	}
	m := &Move{Pod: s.Object, at: at, from: from, to: api.NewAllocation(c.name, machine, decision),
		criteria: compare(n.Index.Quality(before), decision.Quality)}
	reason := m.reason(c.repack)
	if reason == nil || c.repack != RepackNUMA && !m.keepsNodes(machine) {
		return nil
	}
	if to := m.to.CPUs(); to.Len() == 1 && to == n.books.Shared() { // two groups cannot exchange one CPU
		return nil
	}
	m.describe(reason)
	return m
}

// reason returns the first criterion that changes, or nil if it gets worse, or does not count.
func (m *Move) reason(margin Repack) *criterion {
	at := slices.IndexFunc(m.criteria, func(c criterion) bool { return c.before != c.after })
	isLLCs := at == len(m.criteria)-1
	if at < 0 || m.criteria[at].after > m.criteria[at].before || isLLCs && margin == RepackCores {
		return nil
	}
	return &m.criteria[at]
}

func (m *Move) describe(reason *criterion) {
	var changes []string
	for _, to := range m.to.Containers {
		if from := m.before(to.Name); from != to.CPUs {
			changes = append(changes, fmt.Sprintf("container %s from %s to %s", to.Name, from, to.CPUs))
		}
	}
	m.Text = fmt.Sprintf("moved to better CPUs (%s: %d instead of %d): %s", reason.name, reason.after, reason.before, strings.Join(changes, ", "))
}

// before returns the CPUs of a container before the move.
func (m *Move) before(container string) cpuset.Set {
	at := slices.IndexFunc(m.from.Containers, func(c api.ContainerAllocation) bool { return c.Name == container })
	if at < 0 {
		return cpuset.Set{}
	}
	return m.from.Containers[at].CPUs
}

// keepsNodes reports whether no container gets CPUs of a NUMA node that it had none of.
func (m *Move) keepsNodes(machine *topology.Machine) bool {
	for _, to := range m.to.Containers {
		if !to.CPUs.IsSubsetOf(machine.CPUsOfNUMA(machine.NUMANodesOf(m.before(to.Name))...)) {
			return false
		}
	}
	return true
}

// exceeds reports whether the CPUs get better by more than with another move.
func (m *Move) exceeds(other *Move) bool {
	return slices.CompareFunc(m.criteria, other.criteria, func(x, y criterion) int {
		return cmp.Compare(x.before-x.after, y.before-y.after)
	}) > 0
}
