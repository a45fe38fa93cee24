package nodeplan

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
)

// matching says whose a CPU is while sets are matched; -1 is nobody's. No CPU is two residents'.
type matching struct {
	*coreSetPlan
	owner [cpuset.MaxCPUs]int
	own   []cpuset.Set // by resident: the inverse of owner
	open  []cpuset.Set // by resident: the CPUs it may take
}

// assignNeeds gives every resident as many CPUs as it needs, disjoint while there is room. It
// leaves the sets as they are when they cannot be better at that.
func (d *coreSetPlan) assignNeeds() {
	if d.plainlyFine() {
		return
	}
	m := d.newMatching()
	kept := m.fill(func(b *burster) cpuset.Set { return b.set })
	all := m.fill(func(b *burster) cpuset.Set { return b.region })
	if kept == all && d.satisfied() {
		return
	}
	m.apply()
}

// plainlyFine reports whether all have what they need and no two have the same CPU.
func (d *coreSetPlan) plainlyFine() bool {
	var taken cpuset.Set
	for _, b := range d.residents {
		if b.set.Len() < b.need || b.set.Intersects(taken) {
			return false
		}
		taken = taken.Union(b.set)
	}
	return true
}

// satisfied reports whether all have what they need, and nobody who has more has a CPU in common
// with another.
func (d *coreSetPlan) satisfied() bool {
	for _, b := range d.residents {
		if b.set.Len() < b.need {
			return false
		}
		for _, other := range d.residents {
			if other != b && b.set.Len() > b.need && b.set.Intersects(other.set) {
				return false
			}
		}
	}
	return true
}

func (d *coreSetPlan) newMatching() *matching {
	m := &matching{coreSetPlan: d, own: make([]cpuset.Set, len(d.residents)), open: make([]cpuset.Set, len(d.residents))}
	for i := range m.owner {
		m.owner[i] = -1
	}
	return m
}

// fill makes the matching a largest one in which each takes what is open to it, and returns how
// many CPUs are matched. Whoever had a CPU keeps one.
func (m *matching) fill(open func(*burster) cpuset.Set) (matched int) {
	for i, b := range m.residents {
		m.open[i] = open(b)
	}
	for i, b := range m.residents {
		for m.own[i].Len() < b.need && m.augment(i) {
		}
	}
	for i := range m.own {
		matched += m.own[i].Len()
	}
	return matched
}

// augment gives a resident one more CPU by the shortest chain of residents that give theirs to the
// one before and take another. It reports false when there is none.
func (m *matching) augment(first int) bool {
	type link struct {
		resident, before int        // before is an index into chain
		through          cpuset.CPU // of resident, wanted by the one before
	}
	chain := []link{{first, -1, -1}}
	visited := make([]bool, len(m.residents))
	visited[first] = true
	for at := 0; at < len(chain); at++ {
		for _, c := range m.candidates(chain[at].resident) {
			if o := m.owner[c]; o >= 0 {
				if !visited[o] {
					visited[o] = true
					chain = append(chain, link{o, at, c})
				}
				continue
			}
			for step := at; step >= 0; step = chain[step].before {
				m.give(c, chain[step].resident)
				c = chain[step].through
			}
			return true
		}
	}
	return false
}

func (m *matching) give(c cpuset.CPU, resident int) {
	if o := m.owner[c]; o >= 0 {
		m.own[o].Remove(c)
	}
	m.owner[c] = resident
	m.own[resident].Add(c)
}

// candidates are the CPUs open to a resident that it does not own, the best first: see the package
// comment.
func (m *matching) candidates(resident int) []cpuset.CPU {
	b := m.residents[resident]
	var others cpuset.Set // that others own
	var spare cpuset.Set  // that others had
	for i := range m.own {
		if i != resident {
			others = others.Union(m.own[i])
			spare = spare.Union(m.residents[i].set)
		}
	}
	left := b.need - m.own[resident].Len()
	rank := map[cpuset.CPU][6]int{}
	free := m.open[resident].Difference(m.own[resident])
	for c := range free.All() {
		core := m.cores[m.coreOf[c]]
		whole := left < core.Len() || core.IsSubsetOf(b.region.Difference(others))
		rank[c] = [6]int{
			rankFirst(!others.Contains(c)),
			rankFirst(b.set.Contains(c)),
			rankFirst(core.Intersects(m.own[resident])),
			rankFirst(whole),
			int(m.coreLoad(m.coreOf[c], others)),
			rankFirst(!spare.Contains(c)),
		}
	}
	cpus := slices.Collect(free.All())
	slices.SortStableFunc(cpus, func(x, y cpuset.CPU) int {
		a, b := rank[x], rank[y]
		return cmp.Or(slices.Compare(a[:], b[:]), cmp.Compare(m.cores[m.coreOf[x]].First(), m.cores[m.coreOf[y]].First()))
	})
	return cpus
}

// rankFirst is a sort key that puts what is wanted first.
func rankFirst(wanted bool) int {
	if wanted {
		return 0
	}
	return 1
}

// apply makes sets of the matching: what each owns; for who is short, the CPUs that fewest have;
// and what each had beyond need and nobody else has now.
func (m *matching) apply() {
	before := make([]cpuset.Set, len(m.residents))
	for i, b := range m.residents {
		before[i], b.set = b.set, m.own[i]
	}
	for i, b := range m.residents {
		m.share(b, before[i])
	}
	for i, b := range m.residents {
		for c := range before[i].Difference(b.set).All() {
			if m.heldBeside(b, c) == 0 {
				b.set.Add(c)
			}
		}
	}
}

// share fills up a set with CPUs that others have too, those of before first.
func (d *coreSetPlan) share(b *burster, before cpuset.Set) {
	cpus := slices.Collect(b.region.Difference(b.set).All())
	slices.SortStableFunc(cpus, func(x, y cpuset.CPU) int {
		return cmp.Or(
			cmp.Compare(d.heldBeside(b, x), d.heldBeside(b, y)),
			cmp.Compare(rankFirst(before.Contains(x)), rankFirst(before.Contains(y))),
			cmp.Compare(d.coreLoad(d.coreOf[x], cpuset.Set{}), d.coreLoad(d.coreOf[y], cpuset.Set{})),
			cmp.Compare(d.cores[d.coreOf[x]].First(), d.cores[d.coreOf[y]].First()))
	})
	for _, c := range cpus[:max(0, min(len(cpus), b.need-b.set.Len()))] {
		b.set.Add(c)
	}
}

// assignInits gives init containers CPUs: those of their pod's main containers first, beside which
// they do not run, then those that fewest others have. They move nobody.
func (d *coreSetPlan) assignInits() {
	for _, b := range d.bursters {
		if !b.init || b.set.Len() >= b.need {
			continue
		}
		var others, pods cpuset.Set
		for _, other := range d.residents {
			if other.ref.Pod == b.ref.Pod && !other.sidecar {
				pods = pods.Union(other.set)
			} else {
				others = others.Union(other.set)
			}
		}
		order := func(c cpuset.CPU) [3]int {
			return [3]int{rankFirst(!others.Contains(c)), rankFirst(pods.Contains(c)), int(d.coreLoad(d.coreOf[c], others))}
		}
		cpus := slices.Collect(b.region.Difference(b.set).All())
		slices.SortStableFunc(cpus, func(x, y cpuset.CPU) int {
			a, b := order(x), order(y)
			return slices.Compare(a[:], b[:])
		})
		for _, c := range cpus[:b.need-b.set.Len()] {
			b.set.Add(c)
		}
	}
}
