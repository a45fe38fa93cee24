package blame

import (
	"math/bits"
	"time"
)

// Histogram counts times by their lengths. Element i has those from [Bucket] i to the next one, the
// last also longer ones.
type Histogram [32]uint64

// Bucket returns the shortest time of an element: 2^i µs, and 0 of the first.
func Bucket(i int) time.Duration {
	if i == 0 {
		return 0
	}
	return time.Microsecond << i
}

func (h *Histogram) add(d time.Duration) {
	if d > 0 {
		h[min(max(0, bits.Len64(uint64(d/time.Microsecond))-1), len(h)-1)]++
	}
}
