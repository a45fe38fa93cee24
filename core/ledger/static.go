package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
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
	short     MilliCPU   // what of the confined requests cannot be served as it is
	free      cpuset.Set // without the CPUs that some bound lets nobody take
	fullCores placement.FullCores
	machine   int     // how many CPUs may be taken of the whole machine
	bounds    []bound // of single confinements, and of unions once they have turned out to bind
}

// bound is how many CPUs, at least 1, may be taken of some NUMA nodes together.
type bound struct {
	union cpuset.Set
	nodes []int // positions in site.nodes, ascending
	cpus  int
}

// newStaticSearch lists the bounds that are known without a flow: those of rules
// 1, 3 and 4, and those of rule 2 for single confinements.
func (b *Books) newStaticSearch(ask *Ask) *staticSearch {
	s := &staticSearch{books: b, free: b.Free(), fullCores: ask.FullCores, machine: b.machineLimit(ask.SharedRequest.bounded())}
	if len(b.confinements) == 0 {
		return s
	}
	s.short = b.serve(cpuset.Set{}).shortfall()
	for i := range b.confinements {
		c := &b.confinements[i]
		s.add(bound{c.cpus, c.nodes, b.confinementLimit(c, s.short)})
	}
	return s
}

// add takes one more bound into account. Bounds are kept in the ascending order of
// their nodes' number.
func (s *staticSearch) add(b bound) {
	if b.cpus == 0 {
		s.free = s.free.Difference(b.union)
		return
	}
	at, _ := slices.BinarySearchFunc(s.bounds, b, func(x, y bound) int { return cmp.Compare(len(x.nodes), len(y.nodes)) })
	s.bounds = slices.Insert(s.bounds, at, b)
}

// place chooses the best n CPUs that keep the rules. The error wraps a
// [placement.InsufficientError] when there are none.
func (s *staticSearch) place(n int) (placement.Result, error) {
	for {
		if most := s.atMost(s.free, 1); n > most {
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
			limits = append(limits, placement.Limit{NUMANodes: s.books.ids(b.nodes), CPUs: b.cpus})
		}
	}
	return limits
}

// breaks reports whether taking CPUs that keep all bounds breaks rule 2 for some
// further union of NUMA nodes, and if so adds the bound of that union.
func (s *staticSearch) breaks(taken cpuset.Set) bool {
	if !s.books.confinesAny(taken) {
		return false
	}
	after := s.books.serve(taken)
	if after.shortfall() <= s.short {
		return false
	}
	nodes := slices.Concat(after.cuts()...)
	slices.Sort(nodes)
	union := s.books.cpusOf(nodes)
	s.add(bound{union, nodes, s.books.unionLimit(union, s.short)})
	return true
}
