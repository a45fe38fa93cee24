package nodeplan

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
)

// matching is a bipartite matching, which assigns each CPU to at most one long-running container
// and to each container at most as many as it needs, of its region. A maximum one leaves a
// container short only when disjoint sets are impossible. Containers are indexes into longRunning.
type matching struct {
	*coreSetPlan
	owner [cpuset.MaxCPUs]int
	own   []cpuset.Set        // by container: the inverse of owner
	open  []cpuset.Set        // by container: the CPUs that it may take
	stuck []bool              // by container: no chain leads from it to a CPU without an owner, and none will
	steps int                 // what is left of matchingSteps: at 0 the search ends, and the other containers share CPUs
	users [cpuset.MaxCPUs]int // sets with the CPU, while they are applied
}

// matchingSteps bounds the work of a plan, to less than a tenth of a second: containers with different
// NUMA nodes may have to be moved in very many ways.
const matchingSteps = 1 << 17

// assignNeeds gives every long-running container as many CPUs as it needs, disjoint while there is
// room. The previous sets are matched first, and kept if they are as good.
func (d *coreSetPlan) assignNeeds() {
	if d.disjoint() {
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

// disjoint reports whether all sets are large enough and no two intersect.
func (d *coreSetPlan) disjoint() bool {
	var taken cpuset.Set
	for _, b := range d.longRunning {
		if b.set.Len() < b.need || b.set.Intersects(taken) {
			return false
		}
		taken = taken.Union(b.set)
	}
	return true
}

// satisfied reports whether all sets are large enough, and no set with more than it needs
// intersects another one.
func (d *coreSetPlan) satisfied() bool {
	for _, b := range d.longRunning {
		if b.set.Len() < b.need {
			return false
		}
		for _, other := range d.longRunning {
			if other != b && b.set.Len() > b.need && b.set.Intersects(other.set) {
				return false
			}
		}
	}
	return true
}

func (d *coreSetPlan) newMatching() *matching {
	m := &matching{coreSetPlan: d, steps: matchingSteps, own: make([]cpuset.Set, len(d.longRunning)), open: make([]cpuset.Set, len(d.longRunning))}
	for i := range m.owner {
		m.owner[i] = -1
	}
	return m
}

// fill extends the matching to a maximum one in which each container takes only the CPUs returned
// by open. It returns the number of CPUs matched. A container that had a CPU keeps at least one.
func (m *matching) fill(open func(*burster) cpuset.Set) (matched int) {
	m.stuck = make([]bool, len(m.longRunning))
	for i, b := range m.longRunning {
		m.open[i] = open(b)
	}
	for i, b := range m.longRunning {
		for m.own[i].Len() < b.need && m.augment(i) {
		}
	}
	for i := range m.own {
		matched += m.own[i].Len()
	}
	return matched
}

// augment gives a container one more CPU by the shortest chain of containers, which moves the
// fewest of them: each passes a CPU to the one before it and takes another one. It returns false if
// there is no such chain.
func (m *matching) augment(first int) bool {
	type link struct {
		container, before int        // before is an index into chain
		through           cpuset.CPU // owned by container, wanted by the one before
	}
	chain := []link{{first, -1, -1}}
	visited := slices.Clone(m.stuck)
	visited[first] = true
	for at := 0; at < len(chain) && m.steps > 0; at++ {
		for _, c := range m.candidates(chain[at].container) {
			if o := m.owner[c]; o >= 0 {
				if !visited[o] {
					visited[o] = true
					chain = append(chain, link{o, at, c})
				}
				continue
			}
			for step := at; step >= 0; step = chain[step].before {
				m.assign(c, chain[step].container)
				c = chain[step].through
			}
			return true
		}
	}
	m.stuck = visited // or the budget is exhausted
	return false
}

func (m *matching) assign(c cpuset.CPU, container int) {
	if o := m.owner[c]; o >= 0 {
		m.own[o].Remove(c)
	}
	m.owner[c] = container
	m.own[container].Add(c)
}

// candidates returns the CPUs that a container may take and does not own, the best first: one that
// nobody owns; that it had before; of a core that it uses in part; of a core that it can have
// whole; of the idlest core; in no set, rather than one that a container has beyond its need; the
// lowest.
func (m *matching) candidates(container int) []cpuset.CPU {
	b := m.longRunning[container]
	var others cpuset.Set // owned by others
	var spare cpuset.Set  // in the previous sets of others
	for i := range m.own {
		if i != container {
			others = others.Union(m.own[i])
			spare = spare.Union(m.longRunning[i].set)
		}
	}
	lacking, open := b.need-m.own[container].Len(), m.open[container].Difference(m.own[container])
	m.steps -= open.Len()
	return sortedBy(open, func(c cpuset.CPU) sortKey {
		core := m.cores[m.coreOf[c]]
		whole := lacking < core.Len() || core.IsSubsetOf(b.region.Difference(others))
		return sortKey{
			rankFirst(!others.Contains(c)),
			rankFirst(b.set.Contains(c)),
			rankFirst(core.Intersects(m.own[container])),
			rankFirst(whole),
			int(m.coreLoad(m.coreOf[c], others)),
			rankFirst(!spare.Contains(c)),
			int(core.First()),
		}
	})
}

// sortKey is compared element by element.
type sortKey [7]int

// sortedBy returns the CPUs of a set sorted by key, in ascending order among equals.
func sortedBy(set cpuset.Set, key func(cpuset.CPU) sortKey) []cpuset.CPU {
	keys := map[cpuset.CPU]sortKey{}
	for c := range set.All() {
		keys[c] = key(c)
	}
	return slices.SortedStableFunc(set.All(), func(x, y cpuset.CPU) int {
		a, b := keys[x], keys[y]
		return slices.Compare(a[:], b[:])
	})
}

// rankFirst returns a sort key that puts wanted elements first.
func rankFirst(wanted bool) int {
	if wanted {
		return 0
	}
	return 1
}

// apply sets the core sets: the CPUs that each container owns; for those with too few, the CPUs
// that the fewest others have; and the CPUs that each had beyond its need and that are in no other
// set.
func (m *matching) apply() {
	before := make([]cpuset.Set, len(m.longRunning))
	for i, b := range m.longRunning {
		before[i], b.set = b.set, m.own[i]
		m.use(b.set)
	}
	for i, b := range m.longRunning {
		m.share(b, before[i])
	}
	for i, b := range m.longRunning {
		for c := range before[i].Difference(b.set).All() {
			if m.users[c] == 0 {
				b.set.Add(c)
				m.users[c]++
			}
		}
	}
}

// use counts one more user of CPUs.
func (m *matching) use(cpus cpuset.Set) {
	for c := range cpus.All() {
		m.users[c]++
	}
}

// share fills a set up to its need with CPUs of other sets, preferably with those that it had
// before.
func (m *matching) share(b *burster, before cpuset.Set) {
	own := b.set
	m.extend(b, func(c cpuset.CPU) sortKey {
		core := m.coreOf[c]
		return sortKey{m.users[c], rankFirst(before.Contains(c)), int(m.coreLoad(core, cpuset.Set{})), int(m.cores[core].First())}
	})
	m.use(b.set.Difference(own))
}

// extend fills a set up to its need with CPUs of its region, in the order of key.
func (d *coreSetPlan) extend(b *burster, key func(cpuset.CPU) sortKey) {
	cpus := sortedBy(b.region.Difference(b.set), key)
	for _, c := range cpus[:max(0, min(len(cpus), b.need-b.set.Len()))] {
		b.set.Add(c)
	}
}

// assignInits gives CPUs to init containers: first those of the main containers of their pod, which
// do not run at the same time, then those that the fewest others have. The other sets do not
// change.
func (d *coreSetPlan) assignInits() {
	for _, b := range d.bursters {
		if b.Role != ledger.RoleInit {
			continue
		}
		var others, pods cpuset.Set
		for _, other := range d.longRunning {
			if other.ref.Pod == b.ref.Pod && other.Role != ledger.RoleSidecar {
				pods = pods.Union(other.set)
			} else {
				others = others.Union(other.set)
			}
		}
		d.extend(b, func(c cpuset.CPU) sortKey {
			return sortKey{rankFirst(!others.Contains(c)), rankFirst(pods.Contains(c)), int(d.coreLoad(d.coreOf[c], others))}
		})
	}
}
