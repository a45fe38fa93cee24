package scheduler

import (
	"sync"
	"weak"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// indexes gives machines that are alike one placement index. The nodes of a cluster are
// of few kinds, and an index with the working memory of its placements is large: what
// all nodes of a kind use stays in the caches of the CPUs that look through them.
//
// An index that no node uses any more is collected.
type indexes struct {
	mu    sync.Mutex
	known map[cpuset.Set][]weak.Pointer[placement.Index] // by online CPUs
}

func newIndexes() *indexes {
	return &indexes{known: map[cpuset.Set][]weak.Pointer[placement.Index]{}}
}

// of returns an index of a machine, or of one that differs in its memory only.
func (x *indexes) of(m *topology.Machine) *placement.Index {
	x.mu.Lock()
	defer x.mu.Unlock()
	online := m.Online()
	used := x.known[online][:0]
	var found *placement.Index
	for _, candidate := range x.known[online] {
		index := candidate.Value()
		if index == nil {
			continue
		}
		used = append(used, candidate)
		if found == nil && index.Machine().SameCPUs(m) {
			found = index
		}
	}
	if found == nil {
		found = placement.NewIndex(m)
		used = append(used, weak.Make(found))
	}
	x.known[online] = used
	return found
}
