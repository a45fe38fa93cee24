package ledger

import (
	"sync"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// digest is what decisions need to know of the books beside the question. It is the same for all
// questions, and a scheduler asks many of one node before the node changes, so the first decision
// works it out and the others read it.
type digest struct {
	once sync.Once
	// served is how the shared CPUs serve all confinements at present.
	served *flow
	// search is the search for exclusive CPUs, up to what depends on the question.
	search staticSearch
}

// digest returns the one of the books as they are. Nothing in it may be changed.
func (b *Books) digest() *digest {
	d := b.digested
	d.once.Do(func() {
		d.served = b.serve(cpuset.Set{})
		d.search = b.prepareSearch(d.served)
	})
	return d
}

// offers is how much the nodes can serve beside what they serve, without moving any of it to other
// nodes.
func (f *flow) offers(s *site, ids []topology.NUMAID) (sum MilliCPU) {
	for _, id := range ids {
		if n, ok := s.nodeAt(id); ok {
			sum += f.left[n]
		}
	}
	return sum
}

// spares reports whether all that is served still is when CPUs are taken, without moving any of it
// to other nodes.
func (f *flow) spares(s *site, taken cpuset.Set) bool {
	for n := range s.nodes {
		if f.left[n] < wholeCPUs(s.nodes[n].cpus.Intersection(taken).Len()) {
			return false
		}
	}
	return true
}
