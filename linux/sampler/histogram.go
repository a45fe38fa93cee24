package sampler

import (
	"math"
	"math/bits"
	"time"
)

// histogram counts durations in buckets that are an eighth of a power of two wide: what
// it says is at most 12.5% too much. It allocates nothing.
type histogram struct {
	counts [buckets]uint64
	n      uint64
	max    time.Duration
}

const (
	subBits = 3
	sub     = 1 << subBits
	buckets = (64 - subBits) * sub
)

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.counts[bucket(uint64(d))]++
	h.n++
	h.max = max(h.max, d)
}

// bucket returns where a number is counted: numbers below sub each have one of their
// own, above that the first subBits+1 bits of a number decide.
func bucket(v uint64) int {
	if v < sub {
		return int(v)
	}
	shift := bits.Len64(v) - subBits - 1
	return (shift+1)*sub + int(v>>shift)%sub
}

// last returns the largest number of a bucket.
func last(bucket int) uint64 {
	if bucket < sub {
		return uint64(bucket)
	}
	shift := bucket/sub - 1
	return uint64(sub+bucket%sub+1)<<shift - 1
}

// quantile returns a duration that the given share of all durations do not exceed; 0
// when there are none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := uint64(math.Ceil(q * float64(h.n)))
	var seen uint64
	for i, count := range h.counts {
		if seen += count; seen >= rank && seen > 0 {
			return min(time.Duration(last(i)), h.max)
		}
	}
	return h.max
}
