package scheduler

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// ranks caches the ranks of the nodes that fit the pods of one question, by the generation of their
// NodeInfo. Generations are unique among all nodes (see the package comment), so a hit needs neither
// the node's name nor its topology nor its state. Those are spread over the memory, and reading them
// for hundreds of nodes, twice per pod, costs more than the decisions. Without the cache,
// BenchmarkSchedulePod at 1,000 nodes takes 56% more CPU time (2 busy cores, 2026-11-22).
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

// find returns false on a nil table.
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

// put does nothing on a nil table and if there are too many different ranks.
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
