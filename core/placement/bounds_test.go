package placement

import (
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/topology/topologytest"
)

// TestLLCBounds plans every candidate and checks that the LLCs left free are within the bounds.
func TestLLCBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := topologytest.RandomShape(t, 96).MustBuild()
		ix := NewIndex(m)
		if ix.uniform == nil || !ix.uniform.packed {
			t.Skip("only the packed counts of the fast solver have bounds")
		}
		s := newSearch(ix)
		for range 10 {
			req := Request{CPUs: rapid.IntRange(1, len(m.CPUs)).Draw(t, "cpus"), Policy: Static, FullCores: FullCoresPreferred}
			s.query = query{ix, drawFree(t, m), req}
			s.gather()
			if _, ok := s.bestNodes(1<<len(ix.nodes) - 1); !ok {
				continue
			}
			for i := range s.candidates {
				checkBounds(t, s, &s.candidates[i])
			}
		}
	})
}

func checkBounds(t *rapid.T, s *search, c *candidate) {
	least, most := s.boundLLCs(c)
	s.plan(c)
	var got packedCounts
	for l := range s.take {
		if c.mask>>s.u.llcs[l].node&1 == 1 {
			got = got.plus(onePacked(s.llcs[l].whole() - s.take[l]))
		}
	}
	if got.compare(least) < 0 || got.compare(most) > 0 {
		t.Fatalf("free %v, %d cores left on NUMA nodes %b: LLCs by whole free cores %x, bounds %x and %x",
			s.free, c.left, c.mask, got, least, most)
	}
}
