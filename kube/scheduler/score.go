package scheduler

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/placement"
)

// PreScore skips Score for pods that ask for no CPUs: all nodes are equal for them.
func (p *Plugin) PreScore(_ context.Context, state fwk.CycleState, _ *corev1.Pod, _ []fwk.NodeInfo) *fwk.Status {
	if c, err := cycleOf(state); err != nil || c.question.asks {
		return fwk.AsStatus(err)
	}
	return fwk.NewStatus(fwk.Skip)
}

// Score returns the [rank] of the node's best placement for the pod. Until NormalizeScore, smaller
// is better. All nodes are equal for pods that ask for no CPUs.
func (p *Plugin) Score(_ context.Context, state fwk.CycleState, pod *corev1.Pod, node fwk.NodeInfo) (int64, *fwk.Status) {
	c, err := cycleOf(state)
	if err != nil {
		return 0, fwk.AsStatus(err)
	}
	if !c.question.asks {
		return 0, nil
	}
	if r, known := c.knownRank(state, node); known {
		return int64(r), nil
	}
	t := p.shared.reports.Of(node.Node())
	if p.unfit(&c.question, t) != nil {
		return 0, nil
	}
	a := p.stateOf(state, c, pod, node, t).answer(&c.question)
	if a.err != nil {
		return 0, fwk.AsStatus(a.err) // unexpected: Filter has just accepted the node
	}
	return int64(p.rankOf(a)), nil
}

func (p *Plugin) rankOf(a answer) rank {
	use := a.use
	if p.args.ScoringStrategy == MostAllocated {
		use = fullUse - use
	}
	return rankOf(a.quality, use)
}

// ScoreExtensions implements the framework's ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore turns ranks into scores; see normalize.
func (p *Plugin) NormalizeScore(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, scores fwk.NodeScoreList) *fwk.Status {
	normalize(scores)
	return nil
}

// A rank is a placement's quality and the use of its node as one number, because the framework
// carries one int64 per node. Ranks order like the criteria of package placement (designs of core,
// NUMA nodes, distance, split cores, LLCs), then by use; smaller is better. A value that exceeds
// its field counts as the field's maximum, which keeps the order of all others.
type rank int64

// Bits of the fields of a rank, 62 in all. Distance is a sum over pairs of NUMA nodes: 20 bits hold
// the pairs of 64 nodes at the SLIT's largest distance.
const (
	kindBits     = 4
	nodeBits     = 8
	distanceBits = 20
	splitBits    = 10
	llcBits      = 10
	useBits      = 10
)

// fullUse is a use of 100%, in thousandths.
const fullUse = 1000

func rankOf(q placement.Quality, use int) rank {
	var r rank
	for _, field := range []struct{ value, bits int }{
		{q.Kinds, kindBits}, {q.NUMANodes, nodeBits}, {q.Distance, distanceBits},
		{q.SplitCores, splitBits}, {q.LLCs, llcBits}, {use, useBits},
	} {
		r = r<<field.bits | rank(min(max(field.value, 0), 1<<field.bits-1))
	}
	return r
}

// class returns the rank without the node's use.
func (r rank) class() rank { return r >> useBits }

func (r rank) use() int { return int(r & (1<<useBits - 1)) }

// useScore is the largest part of a score that depends on the node's use. It is small, because the
// plugin's weight is meant for quality, and NodeResourcesFit scores use as well.
const useScore = 10

// normalize replaces ranks by scores between 0 and 100. Classes of quality divide the range evenly,
// the best one at the top. Within a class, use lowers the score by up to useScore, and by less than
// the step to the next class if the classes are few.
func normalize(scores fwk.NodeScoreList) {
	var classes []rank // ascending; they are few
	for _, s := range scores {
		class := rank(s.Score).class()
		if at, ok := slices.BinarySearch(classes, class); !ok {
			classes = slices.Insert(classes, at, class)
		}
	}
	step := float64(fwk.MaxScore - useScore)
	if len(classes) > 1 {
		step /= float64(len(classes) - 1)
	}
	forUse := min(useScore, step*0.9)
	for i := range scores {
		r := rank(scores[i].Score)
		place, _ := slices.BinarySearch(classes, r.class())
		score := float64(fwk.MaxScore) - step*float64(place) - forUse*float64(r.use())/fullUse
		scores[i].Score = min(max(int64(math.Round(score)), fwk.MinScore), fwk.MaxScore)
	}
}

// ranks caches the ranks of the nodes that fit the pods of one question, by the generation of their
// NodeInfo. Generations are unique among all nodes (see nodeStates), so a hit needs
// neither the node's name nor its topology nor its state. Those are spread over the memory, and
// reading them for hundreds of nodes, twice per pod, costs more than the decisions. Without the
// cache the scheduler takes 30% more CPU time per pod at 1,000 nodes and 29% more at 5,000
// (bench/scheduler; medians of six and five runs in turns, 2 cores, 2026-11-25).
//
// The generation determines the entry, so that reads need no lock. With a map and a lock it takes 3%
// and 6% more CPU time.
type ranks []atomic.Pointer[generationRank]

type generationRank struct {
	generation int64
	rank       rank
}

// entriesPerNode makes it rare that two nodes need the same entry: their generations may differ by
// several changes of every node.
const entriesPerNode = 8

func (r ranks) entry(generation int64) *atomic.Pointer[generationRank] {
	return &r[uint64(generation)%uint64(len(r))]
}

// find returns the rank that is cached for a generation.
func (r ranks) find(generation int64) (rank, bool) {
	if found := r.entry(generation).Load(); found != nil && found.generation == generation {
		return found.rank, true
	}
	return 0, false
}

func (r ranks) put(generation int64, value rank) {
	r.entry(generation).Store(&generationRank{generation, value})
}

func (r ranks) drop(generation int64) { r.entry(generation).Store(nil) }

// rankTables holds the ranks for all questions.
type rankTables struct {
	mu         sync.Mutex
	changes    uint64 // of topologies when the tables were created: they are valid until the next
	byQuestion map[string]ranks
}

// maxRanks bounds the number of tables, for clusters with many different pods.
const maxRanks = 64

// drop removes the ranks of a node whose agent has published: its NodeInfo is the same.
func (t *rankTables) drop(generation int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.byQuestion {
		r.drop(generation)
	}
}

// of returns the table for a scheduling cycle.
func (t *rankTables) of(key string, changes uint64, nodes int) ranks {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.byQuestion[key]
	if r != nil && t.changes == changes {
		return r
	}
	if t.byQuestion == nil || t.changes != changes || len(t.byQuestion) >= maxRanks {
		t.byQuestion, t.changes = map[string]ranks{}, changes
	}
	r = make(ranks, entriesPerNode*max(nodes, 1))
	t.byQuestion[key] = r
	return r
}
