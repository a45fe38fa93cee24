package placement

import (
	"math/bits"

	"pinfold.dev/pinfold/core/cpuset"
)

// uniform is the data of the fast solver. It exists for machines of one kind of core, all with the
// same number of online threads (1, 2, 4 or 8), whose LLCs each lie in one NUMA node and one
// package.
//
// A free set is stored as bit planes in tree order: bit c of plane t is thread t of core c. The
// whole free cores of an LLC are then counted by a popcount of the planes' intersection.
type uniform struct {
	threads int
	shift   int // threads is 1<<shift
	words   int // 64-bit words of a plane
	copies  []bitCopy
	cpus    []cpuset.CPU // thread t of core c at c*threads+t
	llcs    []uniformLLC
	packed  bool // no LLC has more than maxPacked cores
	largest int  // cores of the largest LLC
	// width is the number of bits of one count in freeSum.partial.
	width int
}

type uniformLLC struct {
	cores      span
	node, pkg  int
	word, bits int    // position of the first core in a plane
	mask       uint64 // the LLC's cores in that word; 0 if it spans words
}

// bitCopy copies n bits of the CPU set, from bit src on, to a plane, from bit dst on. With the
// usual numbering of CPUs there are few and long copies.
type bitCopy struct{ plane, src, dst, n int }

func newUniform(ix *Index) *uniform {
	u := &uniform{threads: len(ix.cores[0].threads), words: (len(ix.cores) + 63) / 64, packed: len(ix.pieces) <= 255}
	switch u.threads {
	case 1:
		u.width = 1
	case 2, 4, 8:
		u.width = 63 / (u.threads - 1)
	default:
		return nil
	}
	u.shift = bits.TrailingZeros(uint(u.threads))
	if ix.kinds > 1 || len(ix.pieces) != ix.llcs {
		return nil
	}
	for _, p := range ix.pieces {
		first := p.cores.from
		l := uniformLLC{cores: p.cores, node: p.node, pkg: ix.cores[first].pkg, word: first / 64, bits: first % 64}
		for _, c := range ix.cores[p.cores.from:p.cores.to] {
			if len(c.threads) != u.threads || c.pkg != l.pkg {
				return nil
			}
			u.cpus = append(u.cpus, c.threads...)
		}
		if l.bits+l.cores.len() <= 64 {
			l.mask = (1<<l.cores.len() - 1) << l.bits
		}
		u.largest = max(u.largest, l.cores.len())
		u.llcs = append(u.llcs, l)
	}
	u.packed = u.packed && u.largest <= maxPacked
	u.planCopies(len(ix.cores))
	return u
}

// planCopies finds the longest runs of cores whose CPU numbers are consecutive.
func (u *uniform) planCopies(cores int) {
	for t := range u.threads {
		for c := 0; c < cores; {
			src, n := int(u.cpus[c*u.threads+t]), 1
			for c+n < cores && int(u.cpus[(c+n)*u.threads+t]) == src+n {
				n++
			}
			u.copies = append(u.copies, bitCopy{plane: t, src: src, dst: c, n: n})
			c += n
		}
	}
}

// freeSum is the sum of what is free in an LLC, a NUMA node or a set of nodes.
type freeSum struct {
	// counts holds three 16-bit numbers, so that one addition adds them all: free CPUs, whole free
	// cores, and LLCs with a whole free core.
	counts uint64
	// partial holds the number of cores with exactly f free threads, for f from 1 to threads-1,
	// each in uniform.width bits.
	partial uint64
}

func (s freeSum) cpus() int      { return int(s.counts & 0xffff) }
func (s freeSum) whole() int     { return int(s.counts >> 16 & 0xffff) }
func (s freeSum) llcsWhole() int { return int(s.counts >> 32) }

func (s freeSum) plus(t freeSum) freeSum {
	return freeSum{s.counts + t.counts, s.partial + t.partial}
}

// partialCores returns how many cores have exactly f free threads.
func (u *uniform) partialCores(s freeSum, f int) int {
	return int(s.partial >> ((f - 1) * u.width) & (1<<u.width - 1))
}

// gather computes from the free set the planes, the classes of cores, and the sums per LLC and
// node.
func (u *uniform) gather(ix *Index, s *scratch, free cpuset.Set) {
	words := free.Words()
	clear(s.planes)
	for _, c := range u.copies {
		for done := 0; done < c.n; done += 64 {
			orBits(s.planes[c.plane*u.words:(c.plane+1)*u.words], c.dst+done, bitsAt(words[:], c.src+done, c.src+c.n))
		}
	}
	u.classify(s)
	for n := range ix.nodes {
		s.nodes[n], s.nodeCounts[n] = u.gatherNode(s, ix.nodes[n].pieces)
	}
}

// gatherNode fills s.llcs for the LLCs of a node and returns their sums. The counts are valid only
// if u.packed.
func (u *uniform) gatherNode(s *scratch, llcs span) (total freeSum, counts packedCounts) {
	for i := llcs.from; i < llcs.to; i++ {
		l := &u.llcs[i]
		var sum freeSum
		if u.threads == 2 && l.mask != 0 {
			half := bits.OnesCount64(s.class[l.word] & l.mask)
			whole := bits.OnesCount64(s.class[u.words+l.word] & l.mask)
			sum = sumOf(2*whole+half, whole)
			sum.partial = uint64(half)
		} else {
			sum = u.sumLLC(s, l)
		}
		s.llcs[i] = sum
		total = total.plus(sum)
		counts = counts.plus(onePacked(sum.whole()))
	}
	return total, counts
}

// sumOf returns a freeSum without partly free cores.
func sumOf(cpus, whole int) freeSum {
	anyWhole := uint64(-whole) >> 63 // the sign bit
	return freeSum{counts: uint64(cpus) | uint64(whole)<<16 | anyWhole<<32}
}

// bitsAt returns the bits of words from `from` to `to`, but at most 64 of them.
func bitsAt(words []uint64, from, to int) uint64 {
	w, shift := from/64, uint(from%64)
	v := words[w] >> shift
	if shift > 0 && w+1 < len(words) {
		v |= words[w+1] << (64 - shift)
	}
	return v & (1<<uint(to-from) - 1)
}

// orBits sets the bits of v in words from bit `at` on.
func orBits(words []uint64, at int, v uint64) {
	w, shift := at/64, uint(at%64)
	words[w] |= v << shift
	if shift > 0 && w+1 < len(words) {
		words[w+1] |= v >> (64 - shift)
	}
}

// classify sets s.class[f-1] to the mask of the cores with exactly f free threads, 64 cores at a
// time.
func (u *uniform) classify(s *scratch) {
	for w := range u.words {
		if u.threads == 2 {
			a, b := s.planes[w], s.planes[u.words+w]
			s.class[w], s.class[u.words+w] = a^b, a&b
		} else {
			u.classifyWord(s, w)
		}
	}
}

// classifyWord adds up the planes with a bit-sliced counter of four bits.
func (u *uniform) classifyWord(s *scratch, w int) {
	var count [4]uint64
	for t := range u.threads {
		carry := s.planes[t*u.words+w]
		for i := range count {
			count[i], carry = count[i]^carry, count[i]&carry
		}
	}
	for f := 1; f <= u.threads; f++ {
		match := ^uint64(0)
		for i := range count {
			if f>>i&1 == 1 {
				match &= count[i]
			} else {
				match &^= count[i]
			}
		}
		s.class[(f-1)*u.words+w] = match
	}
}

func (u *uniform) sumLLC(s *scratch, l *uniformLLC) freeSum {
	whole := u.count(s, l, u.threads)
	cpus, partial := whole*u.threads, uint64(0)
	for f := 1; f < u.threads; f++ {
		n := u.count(s, l, f)
		partial |= uint64(n) << ((f - 1) * u.width)
		cpus += n * f
	}
	sum := sumOf(cpus, whole)
	sum.partial = partial
	return sum
}

// count returns the number of cores of an LLC with exactly f free threads.
func (u *uniform) count(s *scratch, l *uniformLLC, f int) int {
	class := s.class[(f-1)*u.words : f*u.words]
	if l.mask != 0 {
		return bits.OnesCount64(class[l.word] & l.mask)
	}
	n := 0
	for c := l.cores.from; c < l.cores.to; c += 64 {
		n += bits.OnesCount64(bitsAt(class, c, l.cores.to))
	}
	return n
}
