package ledger

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// chooseStatic places all CPUs of a static pod as one request.
func (a *account) chooseStatic(ask *Ask, budget *placement.Budget) (placement.Result, error) {
	s := a.newStaticSearch(ask, budget)
	want := ask.CPUs()
	placed, err := s.place(want)
	var short *placement.InsufficientError
	if !errors.As(err, &short) {
		return placed, err
	}
	pool := s.pool()
	if short.GaveUp && !s.served.budget.Exhausted() {
		if cpus, ok := s.takeGreedily(want, pool); ok {
			return placement.Result{CPUs: cpus, Quality: a.index.Quality(cpus)}, nil
		}
	}
	have, err := s.largest(short.Have, pool)
	if err != nil {
		return placement.Result{}, err
	}
	return placement.Result{}, &ExclusiveError{Want: want, Have: have, FullCores: ask.FullCores, GaveUp: short.GaveUp}
}

// staticSearch is a search for exclusive CPUs. See "Decisions" in the package comment.
type staticSearch struct {
	account   *account
	served    *flow      // of the confined requests at present; read-only
	short     MilliCPU   // the shortfall of served
	free      cpuset.Set // without the CPUs that no bound permits to take
	fullCores placement.FullCores
	machine   int     // how many CPUs of the whole machine may be taken
	bounds    []bound // of single confinements, and of the unions found by breaks
	budget    *placement.Budget
}

// bound limits the number of CPUs, at least 1, that may be taken from some NUMA nodes together.
type bound struct {
	union cpuset.Set
	nodes []int // positions in site.nodes, ascending
	ids   []topology.NUMAID
	cpus  int
}

// newStaticSearch returns a search with the bounds that are known without a flow.
func (a *account) newStaticSearch(ask *Ask, budget *placement.Budget) *staticSearch {
	s := a.digest().search
	s.bounds = slices.Clip(s.bounds) // adding a bound must copy the list
	s.fullCores, s.budget = ask.FullCores, budget
	s.machine = a.machineLimit(ask.SharedRequest.bounded())
	if !ask.Within.IsEmpty() {
		s.free = s.free.Intersection(ask.Within)
	}
	return &s
}

// prepareSearch returns a search with the bounds of rule 3, and of rule 2 for single confinements.
// Those of rules 1 and 4 depend on the question.
func (a *account) prepareSearch(served *flow) staticSearch {
	s := staticSearch{account: a, served: served, short: served.shortfall(), free: a.free()}
	for i := range a.confinements {
		c := &a.confinements[i]
		s.add(bound{union: c.cpus, nodes: c.nodes, cpus: a.confinementLimit(c, s.short)})
	}
	return s
}

// add adds a bound. Bounds are in ascending order of their number of nodes.
func (s *staticSearch) add(b bound) {
	if b.cpus == 0 {
		s.free = s.free.Difference(b.union)
		return
	}
	b.ids = s.account.ids(b.nodes)
	at, _ := slices.BinarySearchFunc(s.bounds, b, func(x, y bound) int { return cmp.Compare(len(x.nodes), len(y.nodes)) })
	s.bounds = slices.Insert(s.bounds, at, b)
}

// place chooses the best n CPUs that satisfy the rules. The error wraps a
// [placement.InsufficientError] if there are none.
func (s *staticSearch) place(n int) (placement.Result, error) {
	for {
		part := s.budget.Split() // the checks need the rest
		placed, err := s.account.index.Place(s.free, placement.Request{CPUs: n, Policy: placement.Static,
			FullCores: s.fullCores, Limits: s.limits(), Budget: part})
		s.budget.Return(part)
		if err != nil {
			return placement.Result{}, fmt.Errorf("place %d exclusive CPUs: %w", n, err)
		}
		if !s.breaks(placed.CPUs) {
			return placed, nil
		}
	}
}

// limits returns the bounds that can restrict a choice of CPUs.
func (s *staticSearch) limits() []placement.Limit {
	limits := make([]placement.Limit, 0, len(s.bounds)+1)
	if s.machine < s.free.Len() {
		limits = append(limits, placement.Limit{CPUs: s.machine})
	}
	for i := range s.bounds {
		b := &s.bounds[i]
		if b.cpus < s.free.Intersection(b.union).Len() {
			limits = append(limits, placement.Limit{NUMANodes: b.ids, CPUs: b.cpus})
		}
	}
	return limits
}

// breaks reports whether taking CPUs that satisfy all bounds violates rule 2 for a further union of
// NUMA nodes. If so, it adds the bound of that union. It returns true without a bound if the budget
// is exhausted.
func (s *staticSearch) breaks(taken cpuset.Set) bool {
	if s.served.servesWithout(s.account.site, taken) {
		return false
	}
	after := s.account.serve(taken, s.budget)
	if s.budget.Exhausted() {
		return true
	}
	if after.shortfall() <= s.short {
		return false
	}
	nodes := slices.Concat(after.cuts()...)
	slices.Sort(nodes)
	union := s.account.cpusOf(nodes)
	s.add(bound{union: union, nodes: nodes, cpus: s.account.unionLimit(union, s.short)})
	return true
}

// digest caches what all decisions derive from the same books. A scheduler asks many questions
// about one node before the node changes: the first decision computes the digest, and the others
// reuse it.
type digest struct {
	once sync.Once
	// served is the flow of all confined requests at present.
	served *flow
	// search is the part of a search for exclusive CPUs that is the same for all questions.
	search staticSearch
}

// digest returns the digest of the account, which must not be modified.
func (a *account) digest() *digest {
	d := a.digested
	d.once.Do(func() {
		d.served = a.serve(cpuset.Set{}, placement.NewBudget())
		d.search = a.prepareSearch(d.served)
	})
	return d
}

// unused returns how much more the nodes can serve without moving earlier requests to other nodes.
func (f *flow) unused(nodes []int) (sum MilliCPU) {
	for _, n := range nodes {
		sum += f.left[n]
	}
	return sum
}

// servesWithout reports whether everything is still served without the CPUs taken, without moving
// any request to another node.
func (f *flow) servesWithout(s *site, taken cpuset.Set) bool {
	for n := range s.nodes {
		if f.left[n] < wholeCPUs(s.nodes[n].Intersection(taken).Len()) {
			return false
		}
	}
	return true
}
