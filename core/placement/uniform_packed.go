package placement

import "cmp"

// maxPacked is the largest number of whole cores per LLC for which the counts of LLCs by whole
// cores are packed into one [packedCounts].
const maxPacked = 16

// packedCounts holds the number of LLCs by their whole free cores: those with w of them in byte
// w-1, of which low has the first eight and high the others.
type packedCounts struct{ low, high uint64 }

// onePacked counts one LLC with w whole free cores, at most maxPacked; none if w is 0. It needs no
// branch: a shift beyond the word, as by a negative number made unsigned, gives 0.
func onePacked(w int) packedCounts {
	return packedCounts{1 << (uint(w-1) * 8), 1 << (uint(w-9) * 8)}
}

func (p packedCounts) plus(q packedCounts) packedCounts {
	return packedCounts{p.low + q.low, p.high + q.high}
}

// of returns how many LLCs have w whole free cores, w being at least 1.
func (p packedCounts) of(w int) int {
	if w > 8 {
		return int(p.high >> ((w - 9) * 8) & 0xff)
	}
	return int(p.low >> ((w - 1) * 8) & 0xff)
}

// smallest returns the n smallest of the LLCs, of which there are at least n, and the sum of their
// whole free cores.
func (p packedCounts) smallest(n int) (list packedCounts, cores int) {
	for w := 1; n > 0; w++ {
		taken, one := min(n, p.of(w)), onePacked(w)
		list.low += one.low * uint64(taken)
		list.high += one.high * uint64(taken)
		cores += w * taken
		n -= taken
	}
	return list, cores
}

// compare compares the LLCs as descending lists of whole free cores: the counts read as one number.
func (p packedCounts) compare(q packedCounts) int {
	return cmp.Or(cmp.Compare(p.high, q.high), cmp.Compare(p.low, q.low))
}
