package scheduler

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// ranks are those of the nodes that have room for the pods of one question, by the
// generation of their NodeInfo. Generations are unique among all nodes (see the package
// comment), so the name of a node, its topology and its state need not be looked at:
// what they say is spread over the memory, and reading it for hundreds of nodes, twice
// for every pod, cost more than all decisions.
//
// It is a cache of lines. A generation has its place in one line, and where that is full
// it takes the place of another. An entry is one word, so that none is ever read while it
// is half written, and finding needs no lock; and a line is as long as one of the
// processor's caches, of which the tables of all questions have to share the second level.
type ranks struct {
	// changes is how many topologies had changed when the table was begun. It is used as
	// long as no more have.
	changes uint64
	shift   int // of the hash, that leaves the number of a line
	// entries are generation<<codeBits | code, or 0; lines of lineEntries.
	entries []atomic.Uint64

	values atomic.Pointer[[]rank] // by code; only ever appended to
	mu     sync.Mutex             // held while values grows
	codes  map[rank]uint64        // the inverse of values
}

const (
	lineEntries = 8
	// codeBits leave 48 for generations, which a scheduler does not count to.
	codeBits = 16
	maxCodes = 1 << codeBits
	// entriesPerNode leaves room for generations that are past.
	entriesPerNode = 8
)

func newRanks(changes uint64, nodes int) *ranks {
	width := bits.Len(uint(entriesPerNode * max(nodes, lineEntries) / lineEntries))
	r := &ranks{changes: changes, shift: 64 - width, entries: make([]atomic.Uint64, lineEntries<<width), codes: map[rank]uint64{}}
	r.values.Store(new([]rank))
	return r
}

// line returns the line of a generation, and which of its entries has to go when it is
// full (Fibonacci hashing).
func (r *ranks) line(generation int64) (entries []atomic.Uint64, victim int) {
	hash := uint64(generation) * 0x9e3779b97f4a7c15
	at := int(hash>>r.shift) * lineEntries
	return r.entries[at : at+lineEntries], int(hash>>(r.shift-3)) % lineEntries
}

// find may be called on nil, in which there is nothing.
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

// put does nothing on nil, and when there are too many ranks.
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

// maxRanks bounds the memory of clusters with many different pods.
const maxRanks = 64

// rankTables are the ranks for all questions.
type rankTables struct {
	mu         sync.Mutex
	byQuestion map[questionKey]*ranks
}

// of returns the table that a scheduling cycle uses.
func (t *rankTables) of(key questionKey, changes uint64, nodes int) *ranks {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.byQuestion[key]
	if r != nil && r.changes == changes && !r.full() {
		return r
	}
	if t.byQuestion == nil || r == nil && len(t.byQuestion) >= maxRanks {
		t.byQuestion = map[questionKey]*ranks{}
	}
	r = newRanks(changes, nodes)
	t.byQuestion[key] = r
	return r
}
