package placement

// division is a search for the cheapest division of the CPUs of a request over one of several sets
// of nodes. Sets that begin with the same nodes share what these cost.
type division struct {
	size   int // of the sets
	best   mask
	shares []int // of the nodes of best; none if there is no division
	cost   cost  // of shares
	cut    bool  // the budget ended the search

	prefix []prefix // the least costs of the first nodes of the last set
	same   int      // how many of them are valid

	set     mask
	members []int // the nodes of the set
	ofSet   chain
	scratch arena   // of ofSet
	ties    []limit // the limits on several of the nodes, with the CPUs that they still permit
	trying  []int
}

type prefix struct {
	node int
	table
	memory arena
}

// bestOf divides the CPUs over each of the sets and keeps the division that costs least. It returns
// false if no set has a division.
func (s *search) bestOf(sets []mask) bool {
	s.best, s.shares, s.cost, s.cut, s.same = 0, s.shares[:0], impossible, false, 0
	for i, set := range sets {
		if s.cut = s.cut || i > 0 && s.req.Budget.Exhausted(); s.cut {
			break
		}
		if s.leastOf(set).less(&s.cost) && s.admits(set) {
			s.divideOver(set)
		}
	}
	return len(s.shares) > 0
}

// leastOf returns the least cost on the nodes of a set, without limits on several nodes.
func (s *search) leastOf(set mask) *cost {
	last, first := &nothing, mask(0)
	s.req.Budget.Spend(1 + s.size/4)
	for i := range s.size {
		n := (set &^ first).lowest()
		first |= 1 << n
		if len(s.prefix) == i {
			s.prefix = append(s.prefix, prefix{})
		}
		p := &s.prefix[i]
		if i >= s.same || p.node != n {
			s.same, p.node = i, n
			node := s.node(n)
			p.memory = p.memory[:0]
			p.combine(last, &node.table, s.least(first), s.req.CPUs, &p.memory, s.req.Budget)
			s.same++
		}
		last = &p.table
	}
	return last.at(s.req.CPUs)
}

// divideOver looks for a division over the nodes of a set that is cheaper than the best one.
func (s *search) divideOver(set mask) {
	s.set, s.members, s.ofSet.parts = set, s.members[:0], s.ofSet.parts[:0]
	for ; set != 0; set &= set - 1 {
		s.members = append(s.members, set.lowest())
		s.ofSet.parts = append(s.ofSet.parts, s.node(set.lowest()).table)
	}
	n := s.req.CPUs
	if !s.tie() || !s.room(0, n) {
		return
	}
	s.scratch = s.scratch[:0]
	s.ofSet.solve(n, n, &s.scratch, s.req.Budget)
	s.trying = s.ofSet.divide(s.trying[:0], n)
	if s.meets() {
		s.keep(*s.ofSet.rest(0).at(n))
	} else {
		s.complete(0, n, cost{})
	}
}

// keep makes what is being tried the best division.
func (s *search) keep(c cost) {
	s.best, s.cost, s.shares = s.set, c, append(s.shares[:0], s.trying...)
}

// meets reports whether the ties permit what is being tried.
func (s *search) meets() bool {
	ok := true
	for i, t := range s.trying {
		ok = s.use(i, t) && ok
	}
	for i, t := range s.trying {
		s.use(i, -t)
	}
	return ok
}

// tie lists the limits on several nodes of the set. It returns false if a limit on all of them is
// below the number wanted. Limits on one node are part of its capacity.
func (s *search) tie() bool {
	s.req.Budget.Spend((4 + 2*len(s.bound)) * len(s.members))
	s.ties = s.ties[:0]
	for _, l := range s.bound {
		members := l.nodes & s.set
		if members == s.set && l.cpus < s.req.CPUs {
			return false
		}
		if members != s.set && members.len() > 1 {
			s.ties = append(s.ties, l)
		}
	}
	return true
}

// complete completes a division whose first i nodes are decided at the cost soFar. Only limits that
// cover some of the nodes but not all need this search; what the missing CPUs cost without limits
// bounds it. It gives the earliest nodes as much as possible first, so among equal divisions it
// finds the one with the lowest numbers.
func (s *search) complete(i, missing int, soFar cost) {
	s.cut = s.cut || !s.req.Budget.Spend(1+len(s.ties)*(len(s.members)-i))
	if s.cut {
		return
	}
	if least := soFar.plus(s.ofSet.rest(i).at(missing)); !least.less(&s.cost) || !s.room(i, missing) {
		return
	}
	if i == len(s.members) {
		s.keep(soFar)
		return
	}
	part := &s.ofSet.parts[i]
	for t := min(missing, part.most()); t >= part.from; t-- {
		s.req.Budget.Spend(1 + len(s.ties)/4)
		if s.use(i, t) {
			s.trying[i] = t
			s.complete(i+1, missing-t, soFar.plus(part.at(t)))
		}
		s.use(i, -t)
	}
}

// use counts t CPUs of node i against the ties, and reports whether they are still met.
func (s *search) use(i, t int) bool {
	ok := true
	for k := range s.ties {
		if s.ties[k].nodes.contains(s.members[i]) {
			s.ties[k].cpus -= t
			ok = ok && s.ties[k].cpus >= 0
		}
	}
	return ok
}

// room reports whether each tie on its own lets the nodes from i on give the `missing` CPUs.
func (s *search) room(i, missing int) bool {
	for _, t := range s.ties {
		inside, outside := 0, 0
		for j := i; j < len(s.members); j++ {
			if t.nodes.contains(s.members[j]) {
				inside += s.ofSet.parts[j].most()
			} else {
				outside += s.ofSet.parts[j].most()
			}
		}
		if outside+min(inside, t.cpus) < missing {
			return false
		}
	}
	return true
}
