package placement

import (
	"math/bits"

	"pinfold.dev/pinfold/core/cpuset"
)

// uniform is the data of the fast solver. It exists for machines of one kind of core, all with one
// online thread or all with two, whose LLCs each lie in one NUMA node and one package.
//
// A free set is stored as bit planes in tree order: bit c of plane t is thread t of core c. The
// whole free cores of an LLC are then counted by a popcount of the planes' intersection.
type uniform struct {
	threads int // of each core
	words   int // 64-bit words of a plane
	copies  []bitCopy
	cpus    []cpuset.CPU // thread t of core c at c*threads+t
	llcs    []uniformLLC
	largest int // cores of the largest LLC
}

type uniformLLC struct {
	cores     span
	node, pkg int
	word      int    // of a plane, in which the first core is
	mask      uint64 // the LLC's cores in that word; 0 if it spans words
}

// bitCopy copies n bits of the CPU set, from bit src on, to a plane, from bit dst on. With the
// usual numbering of CPUs there are few and long copies.
type bitCopy struct{ plane, src, dst, n int }

func newUniform(ix *Index) *uniform {
	u := &uniform{threads: len(ix.cores[0].threads), words: (len(ix.cores) + 63) / 64}
	if u.threads > 2 || len(ix.machine.Kinds) > 1 || len(ix.pieces) != ix.llcs {
		return nil
	}
	for _, p := range ix.pieces {
		first := p.cores.from
		l := uniformLLC{cores: p.cores, node: p.node, pkg: ix.cores[first].pkg, word: first / 64}
		for _, c := range ix.cores[p.cores.from:p.cores.to] {
			if len(c.threads) != u.threads || c.pkg != l.pkg {
				return nil
			}
			u.cpus = append(u.cpus, c.threads...)
		}
		if first%64+l.cores.len() <= 64 {
			l.mask = (1<<l.cores.len() - 1) << (first % 64)
		}
		u.largest = max(u.largest, l.cores.len())
		u.llcs = append(u.llcs, l)
	}
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

// count returns the number of cores of an LLC in a plane.
func (l *uniformLLC) count(plane []uint64) int {
	if l.mask != 0 {
		return bits.OnesCount64(plane[l.word] & l.mask)
	}
	return l.countWords(plane)
}

// countWords is count for an LLC that spans words.
func (l *uniformLLC) countWords(plane []uint64) (n int) {
	for c := l.cores.from; c < l.cores.to; c += 64 {
		n += bits.OnesCount64(bitsAt(plane, c, l.cores.to))
	}
	return n
}

// freeSum is the sum of what is free in an LLC, a NUMA node or a set of nodes: four 16-bit numbers,
// so that one addition adds them all.
type freeSum uint64

// newFreeSum returns the sum of one LLC.
func newFreeSum(cpus, whole, half int) freeSum {
	anyWhole := uint64(-whole) >> 63 // the sign bit
	return freeSum(uint64(cpus) | uint64(whole)<<16 | uint64(half)<<32 | anyWhole<<48)
}

func (s freeSum) cpus() int      { return int(s & 0xffff) }
func (s freeSum) whole() int     { return int(s >> 16 & 0xffff) } // cores with all threads free
func (s freeSum) half() int      { return int(s >> 32 & 0xffff) } // cores with one of two threads free
func (s freeSum) llcsWhole() int { return int(s >> 48) }          // LLCs with a whole free core

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
