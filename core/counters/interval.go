package counters

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// confidence is that of intervals.
const confidence = .95

// ratio returns the ratio of two sums over slices, and its interval by the jackknife: what the ratio
// would be without each of the slices. With fewer than three slices nothing is known about it.
func ratio(sums []sum, parts func(sum) (part, whole float64)) Interval {
	var part, whole float64
	var seen []sum
	for _, s := range sums {
		if p, w := parts(s); w > 0 {
			seen = append(seen, s)
			part, whole = part+p, whole+w
		}
	}
	r := Interval{Low: 0, High: 1}
	if whole == 0 {
		return r
	}
	r.Value = part / whole
	n := float64(len(seen))
	if n < minSlices {
		return r
	}
	var squares float64
	for _, s := range seen {
		p, w := parts(s)
		d := (part-p)/max(whole-w, math.SmallestNonzeroFloat64) - r.Value
		squares += d * d
	}
	half := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile((1+confidence)/2) * math.Sqrt((n-1)/n*squares)
	r.Low, r.High = max(r.Value-half, 0), min(r.Value+half, 1)
	return r
}
