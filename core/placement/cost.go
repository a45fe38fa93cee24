package placement

import "math"

// cost is what a search minimises on a given set of NUMA nodes: three numbers that are compared one
// after the other. Each is a sum over cores, pieces and nodes, so a dynamic programme finds the
// minimum.
type cost struct {
	// criteria are the split cores, the LLCs, and the sum of the ranks of the kinds of the CPUs
	// taken, of 21 bits each: criteria 4 to 6.
	criteria uint64
	// nodes and llcs are what the lists of criterion 7 lose, each free number as its weight. Within
	// one node, nodes is the number of whole cores used.
	nodes, llcs uint64
}

const (
	oneSplit uint64 = 1 << 42
	oneLLC   uint64 = 1 << 21
)

func (a *cost) less(b *cost) bool {
	if a.criteria != b.criteria {
		return a.criteria < b.criteria
	}
	return a.nodes < b.nodes || a.nodes == b.nodes && a.llcs < b.llcs
}

func (a *cost) plus(b *cost) cost {
	return cost{a.criteria + b.criteria, a.nodes + b.nodes, a.llcs + b.llcs}
}

// impossible is larger than any real cost.
var impossible = cost{criteria: 1 << 62}

func (a *cost) possible() bool { return a.criteria < impossible.criteria }

// weights returns a weight for each number of free cores up to most, such that of two descending
// lists of `parts` numbers the lexicographically larger one has the larger sum: powers of parts+1.
// Where these exceed 61 bits, a smaller base or squares approximate that order.
func weights(most, parts int) []uint64 {
	base := parts + 1
	for base > 1 && math.Pow(float64(base), float64(most)) > 1<<61/float64(parts) {
		base--
	}
	list := make([]uint64, most+1)
	for i := range list {
		switch {
		case base == 1:
			list[i] = uint64(i * i)
		case i == 0:
			list[i] = 1
		default:
			list[i] = list[i-1] * uint64(base)
		}
	}
	return list
}

// table has the least cost of each number of CPUs that a part can give, from a first number on.
type table struct {
	from  int
	costs []cost
}

// nothing is the table of a part without free CPUs.
var nothing = table{costs: []cost{{}}}

// most returns the largest number of a table, or less than from if it has none.
func (t *table) most() int { return t.from + len(t.costs) - 1 }

// at returns the cost of n CPUs.
func (t *table) at(n int) *cost {
	if n < t.from || n > t.most() {
		return &impossible
	}
	return &t.costs[n-t.from]
}

// arena is the memory of the tables of one question. Side by side they stay in the CPU's caches.
type arena []cost

// take returns an empty list with room for n costs.
func (a *arena) take(n int) []cost {
	if n > cap(*a)-len(*a) {
		*a = make(arena, 0, 2*cap(*a)+n) // earlier tables keep the old memory
	}
	from := len(*a)
	*a = (*a)[:from+n]
	return (*a)[from : from : from+n]
}

// combine finds the least costs of taking `low` to `high` CPUs from a and b together.
func (t *table) combine(a, b *table, low, high int, m *arena, budget *Budget) {
	t.from = max(low, a.from+b.from)
	high = min(high, a.most()+b.most())
	t.costs = m.take(max(0, high-t.from+1))
	budget.Spend(1 + max(0, high-t.from+1)*min(len(a.costs), len(b.costs)))
	for n := t.from; n <= high; n++ {
		least := impossible
		first, last := max(a.from, n-b.most()), min(a.most(), n-b.from)
		for x := first; x <= last; x++ {
			p, q := &a.costs[x-a.from], &b.costs[n-x-b.from]
			if p.criteria+q.criteria > least.criteria {
				continue
			}
			if k := p.plus(q); k.less(&least) {
				least = k
			}
		}
		t.costs = append(t.costs, least)
	}
}

// chain divides CPUs among parts at the least cost.
type chain struct {
	parts []table // each may have its own smallest number
	after []table // of the parts from one on, without the last part
}

// grow makes a list one longer. The new element is what was there before.
func grow[T any](list []T) []T {
	if len(list) < cap(list) {
		return list[:len(list)+1]
	}
	var zero T
	return append(list, zero)
}

// solve computes the least costs of taking `low` to `high` CPUs from all parts.
func (c *chain) solve(low, high int, m *arena, budget *Budget) {
	for len(c.after) < len(c.parts) {
		c.after = append(c.after, table{})
	}
	for i := range c.parts {
		low -= c.parts[i].most()
	}
	for i := len(c.parts) - 1; i >= 0; i-- {
		low += c.parts[i].most()
		if i < len(c.parts)-1 {
			c.after[i].combine(&c.parts[i], c.rest(i+1), low, high, m, budget)
		}
	}
}

// rest returns the table of the parts from one on.
func (c *chain) rest(i int) *table {
	switch len(c.parts) - i {
	case 0:
		return &nothing
	case 1:
		return &c.parts[i]
	default:
		return &c.after[i]
	}
}

// divide appends how many of n CPUs each part gives. Among equal choices it takes the most from the
// earliest parts.
func (c *chain) divide(take []int, n int) []int {
	for i := range c.parts {
		part, rest, want := &c.parts[i], c.rest(i+1), *c.rest(i).at(n)
		for t := min(n, part.most()); t >= part.from; t-- {
			if part.at(t).plus(rest.at(n-t)) == want {
				take, n = append(take, t), n-t
				break
			}
		}
	}
	return take
}
