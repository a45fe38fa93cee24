package placement

import (
	"math/bits"

	"pinfold.dev/pinfold/core/cpuset"
)

// pick returns the CPUs of a planned candidate and the number of packages that they are in. It
// takes the lowest cores of an LLC, and of a split core the lowest free threads.
func (u *uniform) pick(ix *Index, s *scratch, c *candidate) (cpus cpuset.Set, packages int) {
	clear(s.usedPkgs)
	clear(s.taken)
	clear(s.emptied)
	last := -1 // the LLC whose last core is split
	if c.breaks {
		for l := range s.take {
			if s.take[l] > 0 {
				last = l
			}
		}
	}
	for l := range s.take {
		if s.take[l] == 0 {
			continue
		}
		s.usePackage(u.llcs[l].pkg, &packages)
		broken := 0
		if l == last {
			broken = c.rest
		}
		u.pickWhole(s, l, s.take[l], broken)
	}
	switch {
	case c.partialOnly && c.rest > 0:
		u.pickPartialCores(ix, s, c, &packages)
	case s.partialLLC >= 0:
		s.usePackage(u.llcs[s.partialLLC].pkg, &packages)
		u.pickFree(s, u.lowestPartial(s, s.partialLLC, c.rest), c.rest)
	}
	for i, plane := range s.planes {
		s.taken[i] |= plane & s.emptied[i%u.words]
	}
	return u.scatter(s), packages
}

// fewCopies is the largest number of copies for which scatter copies blocks of bits.
const fewCopies = 64

// scatter is the inverse of gather: it returns the CPUs of the planes in s.taken.
func (u *uniform) scatter(s *scratch) cpuset.Set {
	if len(u.copies) > fewCopies {
		return u.scatterBits(s)
	}
	var words [cpuset.MaxCPUs / 64]uint64
	for _, c := range u.copies {
		plane := s.taken[c.plane*u.words : (c.plane+1)*u.words]
		for done := 0; done < c.n; done += 64 {
			orBits(words[:], c.src+done, bitsAt(plane, c.dst+done, c.dst+c.n))
		}
	}
	return cpuset.FromWords(words)
}

func (u *uniform) scatterBits(s *scratch) cpuset.Set {
	var cpus cpuset.Set
	for i, v := range s.taken {
		for ; v != 0; v &= v - 1 {
			core := i%u.words*64 + bits.TrailingZeros64(v)
			cpus.Add(u.cpus[core*u.threads+i/u.words])
		}
	}
	return cpus
}

func (s *scratch) usePackage(pkg int, count *int) {
	if !s.usedPkgs[pkg] {
		s.usedPkgs[pkg] = true
		*count++
	}
}

// pickWhole takes the lowest n whole free cores of an LLC. Of the last one it takes only `broken`
// threads, unless broken is 0.
func (u *uniform) pickWhole(s *scratch, l, n, broken int) {
	if n == s.llcs[l].whole() && broken == 0 {
		u.empty(s, l, u.threads)
		return
	}
	class := s.class[(u.threads-1)*u.words : u.threads*u.words]
	span := u.llcs[l].cores
	for at := span.from; n > 0; at += 64 {
		v := bitsAt(class, at, span.to)
		rest := v
		for ; rest != 0 && n > 0; n-- {
			if n == 1 && broken > 0 {
				u.pickFree(s, at+bits.TrailingZeros64(rest), broken)
				v &^= rest & -rest
			}
			rest &= rest - 1
		}
		orBits(s.emptied, at, v&^rest)
	}
}

// empty takes all free threads of those cores of an LLC that have exactly f of them.
func (u *uniform) empty(s *scratch, l, f int) {
	class := s.class[(f-1)*u.words : f*u.words]
	span := u.llcs[l].cores
	for at := span.from; at < span.to; at += 64 {
		orBits(s.emptied, at, bitsAt(class, at, span.to))
	}
}

// lowestPartial returns the lowest partly free core of an LLC with at least `least` free threads.
func (u *uniform) lowestPartial(s *scratch, l, least int) int {
	span := u.llcs[l].cores
	for c := span.from; c < span.to; c++ {
		for f := least; f < u.threads; f++ {
			if s.class[(f-1)*u.words+c/64]>>(c%64)&1 == 1 {
				return c
			}
		}
	}
	panic("placement: no partly free core where one was counted")
}

// pickFree takes the lowest n free threads of a core.
func (u *uniform) pickFree(s *scratch, core, n int) {
	word, bit := core/64, uint64(1)<<(core%64)
	for t := 0; n > 0; t++ {
		if s.planes[t*u.words+word]&bit != 0 {
			s.taken[t*u.words+word] |= bit
			n--
		}
	}
}

// pickPartialCores takes the rest of a demand for which no whole core is left: from the cores with
// the most free threads, in the LLCs that criterion 5 allows.
func (u *uniform) pickPartialCores(ix *Index, s *scratch, c *candidate, packages *int) {
	u.collectPartialLLCs(ix, s, c)
	rest := c.rest
	for f := u.threads - 1; f > 0 && rest > 0; f-- {
		for _, l := range s.group {
			if left := u.pickPartial(s, l, f, rest); left < rest {
				s.usePackage(u.llcs[l].pkg, packages)
				rest = left
			}
		}
	}
}

// pickPartial takes up to rest threads of those cores of an LLC that have exactly f free. It
// returns how many are still missing.
func (u *uniform) pickPartial(s *scratch, l, f, rest int) int {
	if all := u.partialCores(s.llcs[l], f) * f; all <= rest {
		u.empty(s, l, f)
		return rest - all
	}
	class, span := s.class[(f-1)*u.words:f*u.words], u.llcs[l].cores
	for at := span.from; at < span.to && rest > 0; at += 64 {
		for v := bitsAt(class, at, span.to); v != 0 && rest > 0; v &= v - 1 {
			n := min(f, rest)
			u.pickFree(s, at+bits.TrailingZeros64(v), n)
			rest -= n
		}
	}
	return rest
}

// collectPartialLLCs fills s.group with the LLCs that give partly free cores, ascending: those with
// whole cores, and the others that criterion 5 counted.
func (u *uniform) collectPartialLLCs(ix *Index, s *scratch, c *candidate) {
	if u.threads > 2 {
		u.separateLLCs(ix, s, c.mask)
		for set := c.partialLLCs; set != 0; set &= set - 1 {
			s.take[s.group[bits.TrailingZeros32(set)]] = -1
		}
	} else {
		u.markHalfFree(ix, s, c)
	}
	s.group = s.group[:0]
	for l := range s.take {
		if s.take[l] != 0 {
			s.group = append(s.group, l)
		}
		s.take[l] = max(s.take[l], 0)
	}
}

// markHalfFree sets s.take to -1 for the LLCs without a whole free core that criterion 5 counted on
// an SMT2 machine: those with the most half-free cores, the lowest first among equals.
func (u *uniform) markHalfFree(ix *Index, s *scratch, c *candidate) {
	for range c.llcs - c.sum.llcsWhole() {
		best, most := -1, 0
		for l := range ix.llcsOf(c.mask) {
			free := s.llcs[l].cpus()
			if s.llcs[l].whole() == 0 && free > most && s.take[l] == 0 {
				best, most = l, free
			}
		}
		s.take[best] = -1
	}
}
