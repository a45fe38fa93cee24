package scheduler

import (
	"context"
	"math"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/placement"
)

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
	t := p.shared.topologies.of(node.Node())
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
// NodeInfo. Generations are unique among all nodes (see the package comment), so a hit needs neither
// the node's name nor its topology nor its state. Those are spread over the memory, and reading them
// for hundreds of nodes, twice per pod, costs more than the decisions. Without the cache,
// BenchmarkSchedulePod takes 30% more CPU time at 1,000 nodes and 51% more at 5,000; with a sync.Map
// in its place, 11% and 17% more (2 cores, 2026-11-22).
//
// The cache consists of lines of the size of a CPU cache line. Each generation belongs to one line,
// and replaces another generation if the line is full. An entry is one word, so that reads need no
// lock, and so that the tables of all questions fit in the second-level CPU cache.
type ranks struct {
	// changes is the number of topology changes when the table was created. The table is valid
	// until the next change.
	changes uint64
	shift   int             // turns a hash into the number of a line
	entries []atomic.Uint64 // generation<<codeBits | code, or 0; lines of lineEntries

	values atomic.Pointer[[]rank] // by code; only ever appended to
	mu     sync.Mutex             // held while values grows
	codes  map[rank]uint64        // the inverse of values
}

const (
	lineEntries = 8
	// codeBits leaves 48 bits for generations, more than a scheduler ever uses.
	codeBits = 16
	maxCodes = 1 << codeBits
	// entriesPerNode leaves room for past generations.
	entriesPerNode = 8
)

func newRanks(changes uint64, nodes int) *ranks {
	width := bits.Len(uint(entriesPerNode * max(nodes, lineEntries) / lineEntries))
	r := &ranks{changes: changes, shift: 64 - width, entries: make([]atomic.Uint64, lineEntries<<width), codes: map[rank]uint64{}}
	r.values.Store(new([]rank))
	return r
}

// line returns the line of a generation and the entry to replace if the line is full (Fibonacci
// hashing).
func (r *ranks) line(generation int64) (entries []atomic.Uint64, victim int) {
	hash := uint64(generation) * 0x9e3779b97f4a7c15
	at := int(hash>>r.shift) * lineEntries
	return r.entries[at : at+lineEntries], int(hash>>(r.shift-3)) % lineEntries
}

// find returns the rank that is cached for a generation. It returns false on a nil table.
func (r *ranks) find(generation int64) (rank, bool) {
	if r == nil || generation <= 0 {
		return 0, false
	}
	line, _ := r.line(generation)
	for i := range line {
		if entry := line[i].Load(); entry>>codeBits == uint64(generation) {
			return (*r.values.Load())[entry%maxCodes], true
		}
	}
	return 0, false
}

// put caches the rank of a generation. It does nothing on a nil table and if there are too many
// different ranks.
func (r *ranks) put(generation int64, value rank) {
	if r == nil || generation <= 0 || generation >= 1<<(64-codeBits) {
		return
	}
	code, ok := r.code(value)
	if !ok {
		return
	}
	line, at := r.line(generation)
	for i := range line {
		if entry := line[i].Load(); entry == 0 || entry>>codeBits == uint64(generation) {
			at = i
			break
		}
	}
	line[at].Store(uint64(generation)<<codeBits | code)
}

func (r *ranks) code(value rank) (code uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if code, ok = r.codes[value]; ok {
		return code, true
	}
	values := *r.values.Load()
	if len(values) == maxCodes {
		return 0, false
	}
	code = uint64(len(values))
	values = append(values, value)
	r.codes[value] = code
	r.values.Store(&values)
	return code, true
}

func (r *ranks) full() bool { return len(*r.values.Load()) == maxCodes }

// maxRanks bounds the number of tables, for clusters with many different pods.
const maxRanks = 64

// rankTables holds the tables of all questions.
type rankTables struct {
	mu         sync.Mutex
	byQuestion map[string]*ranks
}

// of returns the table for a scheduling cycle.
func (t *rankTables) of(key string, changes uint64, nodes int) *ranks {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.byQuestion[key]
	if r != nil && r.changes == changes && !r.full() {
		return r
	}
	if t.byQuestion == nil || r == nil && len(t.byQuestion) >= maxRanks {
		t.byQuestion = map[string]*ranks{}
	}
	r = newRanks(changes, nodes)
	t.byQuestion[key] = r
	return r
}
