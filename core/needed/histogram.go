package needed

import (
	"math"
	"sync"
)

// Schema is that of [Histogram] as a native histogram of Prometheus: an upper bound of a bucket is
// 2^(1/2^Schema) times that of the one before.
const Schema = 3

const (
	perOctave = 1 << Schema
	// smallest and largest are the buckets of 1/1024 and 1024.
	smallest, largest = -10 * perOctave, 10 * perOctave
	buckets           = largest - smallest + 1
)

// bounds are the upper bounds of the buckets.
var bounds = sync.OnceValue(func() (all [buckets]float64) {
	for i := range all {
		all[i] = math.Exp2(float64(smallest+i) / perOctave)
	}
	return all
})

// upper returns the upper bound of a bucket.
func upper(bucket int) float64 { return bounds()[bucket-smallest] }

// Histogram counts values, such as CPUs or seconds. Its zero value is empty.
type Histogram struct {
	counts [buckets]uint64
	zero   uint64
	sum    float64
}

// ZeroUpTo is the largest value that counts as 0.
const ZeroUpTo = 1. / 1024

// Add adds a value. An upper bound of a bucket belongs to that bucket. Values of more than 1024 count in the
// last one.
func (h *Histogram) Add(v float64) {
	h.sum += v
	if v <= ZeroUpTo {
		h.zero++
		return
	}
	const rounding = 1e-9
	bucket := int(math.Ceil(math.Log2(v)*perOctave - rounding))
	h.counts[min(max(bucket, smallest), largest)-smallest]++
}

// Counts returns the count of each bucket that has one, by its number: that with the upper bound 1 is 0.
func (h *Histogram) Counts() (all map[int]int64, zero, count uint64, sum float64) {
	all, count = map[int]int64{}, h.zero
	for i, n := range h.counts {
		if n > 0 {
			all[smallest+i] = int64(n)
			count += n
		}
	}
	return all, h.zero, count, h.sum
}
