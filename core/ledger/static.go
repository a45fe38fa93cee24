package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// chooseStatic places all CPUs of a static pod as one request.
func (b *Books) chooseStatic(ask *Ask) (placement.Result, error) {
	s := b.newStaticSearch(ask)
	want := ask.CPUs()
	placed, err := s.place(want)
	if !errors.As(err, new(*placement.InsufficientError)) {
		return placed, err
	}
	have, err := s.largest()
	if err != nil {
		return placement.Result{}, err
	}
	return placement.Result{}, &ExclusiveError{Want: want, Have: have, FullCores: ask.FullCores}
}

// staticSearch looks for exclusive CPUs. See "Decisions" in the package comment.
type staticSearch struct {
	books     *Books
	served    *flow      // of the confined requests as it is; only read
	short     MilliCPU   // what of them it leaves unserved
	free      cpuset.Set // without the CPUs that some bound lets nobody take
	fullCores placement.FullCores
	machine   int     // how many CPUs may be taken of the whole machine
	bounds    []bound // of single confinements, and of unions once they have turned out to bind
	most      int     // what the bounds leave of free, one by one; see reach
}

// bound is how many CPUs, at least 1, may be taken of some NUMA nodes together.
type bound struct {
	union cpuset.Set
	nodes []int // positions in site.nodes, ascending
	ids   []topology.NUMAID
	cpus  int
}

// newStaticSearch starts a search with the bounds that are known without a flow.
func (b *Books) newStaticSearch(ask *Ask) *staticSearch {
	s := b.digest().search
	s.books = b                      // and not the clone that has worked it out, which may have changed since
	s.bounds = slices.Clip(s.bounds) // so that a further bound goes to a copy
	s.fullCores = ask.FullCores
	s.machine = b.machineLimit(ask.SharedRequest.bounded())
	return &s
}

// prepareSearch lists the bounds of rule 3 and of rule 2 for single confinements. Those of rules 1
// and 4 depend on the question.
func (b *Books) prepareSearch(served *flow) staticSearch {
	s := staticSearch{books: b, served: served, short: served.shortfall(), free: b.Free()}
	for i := range b.confinements {
		c := &b.confinements[i]
		s.add(bound{union: c.cpus, nodes: c.nodes, cpus: b.confinementLimit(c, s.short)})
	}
	s.most = s.reach(s.free, 1)
	return s
}

// add takes one more bound into account. Bounds are kept in the ascending order of their nodes'
// number.
func (s *staticSearch) add(b bound) {
	if b.cpus == 0 {
		s.free = s.free.Difference(b.union)
		return
	}
	b.ids = s.books.ids(b.nodes)
	at, _ := slices.BinarySearchFunc(s.bounds, b, func(x, y bound) int { return cmp.Compare(len(x.nodes), len(y.nodes)) })
	s.bounds = slices.Insert(s.bounds, at, b)
}

// place chooses the best n CPUs that keep the rules. The error wraps a
// [placement.InsufficientError] when there are none.
func (s *staticSearch) place(n int) (placement.Result, error) {
	for {
		if most := min(s.machine, s.most); n > most {
			return placement.Result{}, &placement.InsufficientError{Want: n, Have: most, Policy: placement.Static, FullCores: s.fullCores}
		}
		placed, err := s.books.index.Place(s.free, placement.Request{CPUs: n, Policy: placement.Static,
			FullCores: s.fullCores, Limits: s.limits(n)})
		if err != nil {
			return placement.Result{}, fmt.Errorf("place %d exclusive CPUs: %w", n, err)
		}
		if !s.breaks(placed.CPUs) {
			return placed, nil
		}
	}
}

// limits are the bounds that can bind n CPUs.
func (s *staticSearch) limits(n int) []placement.Limit {
	var limits []placement.Limit
	for i := range s.bounds {
		b := &s.bounds[i]
		if b.cpus < n && b.cpus < s.free.Intersection(b.union).Len() {
			limits = append(limits, placement.Limit{NUMANodes: b.ids, CPUs: b.cpus})
		}
	}
	return limits
}

// breaks reports whether taking CPUs that keep all bounds breaks rule 2 for some further union of
// NUMA nodes, and if so adds the bound of that union.
func (s *staticSearch) breaks(taken cpuset.Set) bool {
	if s.served.spares(s.books.site, taken) {
		return false
	}
	after := s.books.serve(taken)
	if after.shortfall() <= s.short {
		return false
	}
	nodes := slices.Concat(after.cuts()...)
	slices.Sort(nodes)
	union := s.books.cpusOf(nodes)
	s.add(bound{union: union, nodes: nodes, cpus: s.books.unionLimit(union, s.short)})
	s.most = s.reach(s.free, 1)
	return true
}
