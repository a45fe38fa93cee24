package scheduler

import (
	"math"
	"slices"

	fwk "k8s.io/kube-scheduler/framework"

	"pinfold.dev/pinfold/core/placement"
)

// A rank is a placement's quality and the use of its node as one number that
// orders like the criteria of package placement, the better the smaller: kinds of
// core, NUMA nodes, distance, split cores and LLCs, most significant first, and
// then use. Score returns it, because the framework carries one int64 for a node.
//
// A criterion that is larger than its field counts as the largest value of it, so
// that the order among all others stays right.
type rank int64

// Bits of the fields of a rank, 62 in all. Distance is a sum over pairs of NUMA
// nodes: 20 bits hold the pairs of 64 nodes at the SLIT's largest distance.
const (
	kindBits     = 4
	nodeBits     = 8
	distanceBits = 20
	splitBits    = 10
	llcBits      = 10
	useBits      = 10
)

// fullUse is a use of 100%.
const fullUse = 1000

func rankOf(q placement.Quality, use int) rank {
	var r rank
	for _, field := range []struct{ value, bits int }{
		{q.Kinds, kindBits}, {q.NUMANodes, nodeBits}, {q.Distance, distanceBits},
		{q.SplitCores, splitBits}, {q.LLCs, llcBits}, {use, useBits},
	} {
		r = r<<field.bits | rank(min(max(field.value, 0), 1<<field.bits-1))
	}
	return r
}

// class is the rank without the use of the node.
func (r rank) class() rank { return r >> useBits }

func (r rank) use() int { return int(r & (1<<useBits - 1)) }

// useScore is the part of a score that the use of a node can make up. It is small,
// since the plugin's weight is made for quality, and NodeResourcesFit looks at use
// as well.
const useScore = 10

// normalize turns ranks into scores between 0 and 100, in place. Classes of quality
// share the range evenly, the best one at its top; within a class use lowers the
// score by useScore at most, and always by less than the step to the next class
// where there are few enough classes for that.
func normalize(scores fwk.NodeScoreList) {
	var classes []rank // ascending; there are few
	for _, s := range scores {
		class := rank(s.Score).class()
		if at, ok := slices.BinarySearch(classes, class); !ok {
			classes = slices.Insert(classes, at, class)
		}
	}

	step := float64(fwk.MaxScore - useScore)
	if len(classes) > 1 {
		step /= float64(len(classes) - 1)
	}
	forUse := min(useScore, step*0.9)
	for i := range scores {
		r := rank(scores[i].Score)
		place, _ := slices.BinarySearch(classes, r.class())
		score := float64(fwk.MaxScore) - step*float64(place) - forUse*float64(r.use())/fullUse
		scores[i].Score = min(max(int64(math.Round(score)), fwk.MinScore), fwk.MaxScore)
	}
}
