package counters

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"pinfold.dev/pinfold/core/interference/lindley"
)

// Histogram counts periods by what threads wanted in them, in CPUs. Buckets are in order and do not
// overlap.
type Histogram []Bucket

// Bucket has the periods with a demand between two amounts.
type Bucket struct{ Low, High, Periods float64 }

// Add returns a histogram with the buckets of both, of which equal ones are added.
func (h Histogram) Add(other Histogram) Histogram {
	byBounds := map[[2]float64]float64{}
	for _, b := range slices.Concat(h, other) {
		byBounds[[2]float64{b.Low, b.High}] += b.Periods
	}
	var sum Histogram
	for bounds, n := range byBounds {
		sum = append(sum, Bucket{bounds[0], bounds[1], n})
	}
	slices.SortFunc(sum, func(a, b Bucket) int { return cmp.Or(cmp.Compare(a.Low, b.Low), cmp.Compare(a.High, b.High)) })
	return sum
}

// Periods returns how many periods were counted.
func (h Histogram) Periods() (n float64) {
	for _, b := range h {
		n += b.Periods
	}
	return n
}

// Mean returns the mean demand, in CPUs, with that of each bucket in its middle.
func (h Histogram) Mean() float64 {
	sum := 0.
	for _, b := range h {
		sum += b.Periods * (b.Low + b.High) / 2
	}
	return sum / h.Periods()
}

// inQuotas is a histogram as the distribution of independent demand, in quotas of a limit.
type inQuotas struct {
	Histogram
	limit float64
}

func (d inQuotas) Mean() float64 {
	sum := 0.
	for _, b := range d.Histogram {
		sum += b.Periods * (3*b.High - b.Low) / 2
	}
	return sum / d.Periods() / d.limit
}

// CDF takes the demand of a bucket as evenly distributed over as much above its end, where all of it
// may be if it is regular.
func (d inQuotas) CDF(x float64) float64 {
	below := 0.
	for _, b := range d.Histogram {
		switch at, end := x*d.limit, 2*b.High-b.Low; {
		case at >= end:
			below += b.Periods
		case at > b.High:
			below += b.Periods * (at - b.High) / (end - b.High)
		}
	}
	return below / d.Periods()
}

func (d inQuotas) Draw(r *rand.Rand) float64 {
	left := r.Float64() * d.Periods()
	for _, b := range d.Histogram {
		if left < b.Periods {
			return (b.High + (b.High-b.Low)*left/b.Periods) / d.limit
		}
		left -= b.Periods
	}
	return d.Histogram[len(d.Histogram)-1].High / d.limit
}

// Quantile returns the demand that a share of the periods does not exceed, in CPUs.
func (h Histogram) Quantile(share float64) float64 {
	left := share * h.Periods()
	for _, b := range h {
		if left <= b.Periods {
			return b.Low + (b.High-b.Low)*left/b.Periods
		}
		left -= b.Periods
	}
	return h[len(h)-1].High
}

// throttled returns the share of periods that a limit throttles with each burst, in quotas, if
// periods are independent.
func (h Histogram) throttled(limit float64, bursts ...float64) []float64 {
	const steps = 64
	if d := (inQuotas{h, limit}); d.Mean() < .99 {
		if p, _, err := lindley.Estimate(d, bursts, steps); err == nil {
			return p
		}
	}
	return slices.Repeat([]float64{1}, len(bursts))
}

// effect returns what a limit does, also with the longest burst that the kernel allows.
func (h Histogram) effect(limit float64) Effect {
	p := h.throttled(limit, 0, 1)
	return Effect{limit, p[0], p[1]}
}

// smallestLimit returns the smallest limit that throttles at most a share of the periods, to 2%.
func (h Histogram) smallestLimit(share float64) float64 {
	least, most := h.Mean(), 2*h[len(h)-1].High
	for most > 1.02*least {
		if middle := math.Sqrt(least * most); h.throttled(middle, 0)[0] > share {
			least = middle
		} else {
			most = middle
		}
	}
	return most
}
