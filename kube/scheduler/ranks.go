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
// It is a hash table with open addressing into which nodes are only put. Nothing is
// ever taken out or replaced, so finding needs no lock; a table that is half full is
// left, and a new one begun.
type ranks struct {
	// changes is how many topologies had changed when the table was begun. It is used as
	// long as no more have.
	changes uint64
	shift   int // of the hash, that leaves an index of slots
	used    atomic.Int64
	slots   []rankSlot // a power of two; half of them, and one per goroutine, are used at most
}

// rankSlot is empty, being filled, or full, and then stays as it is.
type rankSlot struct {
	generation atomic.Int64 // 0 when empty; fillingSlot until rank is there
	rank       atomic.Int64
}

// fillingSlot is no generation: they count from 1.
const fillingSlot = -1

// slotsPerNode leaves room for some changes of every node in a table that is to be half
// empty.
const slotsPerNode = 8

func newRanks(changes uint64, nodes int) *ranks {
	width := bits.Len(uint(slotsPerNode * max(nodes, 8)))
	return &ranks{changes: changes, shift: 64 - width, slots: make([]rankSlot, 1<<width)}
}

// start is where the search for a generation begins (Fibonacci hashing).
func (r *ranks) start(generation int64) int {
	return int(uint64(generation) * 0x9e3779b97f4a7c15 >> r.shift)
}

// find may be called on nil, in which there is nothing.
func (r *ranks) find(generation int64) (rank, bool) {
	if r == nil {
		return 0, false
	}
	for i := r.start(generation); ; i++ {
		slot := &r.slots[i&(len(r.slots)-1)]
		switch slot.generation.Load() {
		case generation:
			return rank(slot.rank.Load()), generation > 0
		case 0:
			return 0, false
		}
	}
}

// put does nothing on nil, and in a table that is half full.
func (r *ranks) put(generation int64, value rank) {
	if r == nil || generation <= 0 || r.halfFull() {
		return
	}
	for i := r.start(generation); ; i++ {
		slot := &r.slots[i&(len(r.slots)-1)]
		if slot.generation.Load() == generation {
			return
		}
		if slot.generation.CompareAndSwap(0, fillingSlot) {
			slot.rank.Store(int64(value))
			slot.generation.Store(generation)
			r.used.Add(1)
			return
		}
	}
}

func (r *ranks) halfFull() bool { return r.used.Load() >= int64(len(r.slots)/2) }

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
	if r != nil && r.changes == changes && !r.halfFull() {
		return r
	}
	if t.byQuestion == nil || r == nil && len(t.byQuestion) >= maxRanks {
		t.byQuestion = map[questionKey]*ranks{}
	}
	r = newRanks(changes, nodes)
	t.byQuestion[key] = r
	return r
}
