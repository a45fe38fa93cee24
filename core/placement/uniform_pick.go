package placement

import (
	"math/bits"

	"pinfold.dev/pinfold/core/cpuset"
)

// pick returns the CPUs of a planned candidate and the number of packages that they are in. It
// takes the lowest cores of an LLC, and of a split core the lowest free thread.
func (s *search) pick(c *candidate) (cpus cpuset.Set, packages int) {
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
		s.usePackage(l, &packages)
		if l == last {
			s.pickCores(s.whole, l, s.take[l]-1)
			s.pickThread(s.whole, l)
		} else {
			s.pickCores(s.whole, l, s.take[l])
		}
	}
	switch {
	case c.halfOnly:
		s.pickHalfCores(c, &packages)
	case s.partialLLC >= 0:
		s.usePackage(s.partialLLC, &packages)
		s.pickThread(s.half, s.partialLLC)
	}
	for i, plane := range s.planes {
		s.taken[i] |= plane & s.emptied[i%s.u.words]
	}
	return s.scatter(), packages
}

// fewCopies is the largest number of copies for which scatter copies blocks of bits.
const fewCopies = 64

// scatter is the inverse of gather: it returns the CPUs of the planes in s.taken.
func (s *search) scatter() cpuset.Set {
	u := s.u
	if len(u.copies) > fewCopies {
		return s.scatterBits()
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

func (s *search) scatterBits() cpuset.Set {
	var cpus cpuset.Set
	for i, v := range s.taken {
		for ; v != 0; v &= v - 1 {
			core := i%s.u.words*64 + bits.TrailingZeros64(v)
			cpus.Add(s.u.cpus[core*s.u.threads+i/s.u.words])
		}
	}
	return cpus
}

// usePackage counts the package of an LLC if it was not used before.
func (s *search) usePackage(l int, count *int) {
	if pkg := s.u.llcs[l].pkg; !s.usedPkgs[pkg] {
		s.usedPkgs[pkg] = true
		*count++
	}
}

// pickCores takes all free threads of the lowest n cores of an LLC that are in a plane. It returns
// how many such cores are missing.
func (s *search) pickCores(plane []uint64, l, n int) (missing int) {
	span := s.u.llcs[l].cores
	for at := span.from; at < span.to && n > 0; at += 64 {
		v := bitsAt(plane, at, span.to)
		if count := bits.OnesCount64(v); count <= n {
			n -= count
		} else {
			rest := v
			for ; n > 0; n-- {
				rest &= rest - 1
			}
			v &^= rest
		}
		orBits(s.emptied, at, v)
	}
	return n
}

// pickThread takes the lowest free thread of the lowest core of an LLC that is in a plane and was
// not emptied.
func (s *search) pickThread(plane []uint64, l int) {
	span, u := s.u.llcs[l].cores, s.u
	for at := span.from; at < span.to; at += 64 {
		v := bitsAt(plane, at, span.to) &^ bitsAt(s.emptied, at, span.to)
		if v == 0 {
			continue
		}
		core := at + bits.TrailingZeros64(v)
		word, bit := core/64, uint64(1)<<(core%64)
		for s.planes[word]&bit == 0 {
			word += u.words
		}
		s.taken[word] |= bit
		return
	}
	panic("placement: no free core where one was counted")
}

// pickHalfCores takes the rest of a demand for which no whole core is left, in the LLCs that
// criterion 5 allows.
func (s *search) pickHalfCores(c *candidate, packages *int) {
	s.markHalfFree(c)
	rest := c.rest
	for l := range s.take {
		if s.take[l] == 0 || rest == 0 {
			continue
		}
		if missing := s.pickCores(s.half, l, rest); missing < rest {
			s.usePackage(l, packages)
			rest = missing
		}
	}
}

// markHalfFree sets s.take to -1 for the LLCs without a whole free core that criterion 5 counted:
// those with the most half-free cores, the lowest first among equals.
func (s *search) markHalfFree(c *candidate) {
	for range c.llcs - c.sum.llcsWhole() {
		best, most := -1, 0
		for l := range s.ix.llcsOf(c.mask) {
			if n := s.llcs[l].half(); s.llcs[l].whole() == 0 && n > most && s.take[l] == 0 {
				best, most = l, n
			}
		}
		s.take[best] = -1
	}
}
