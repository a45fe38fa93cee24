package demand

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// maxPoisson bounds the mean number of requests, and so the table.
const maxPoisson = 1e4

// Poisson is a Poisson number of requests, each of which takes the same part of the quota.
type Poisson struct {
	lambda, perQuota float64
	table            []float64 // P(N <= i); the last is 1
}

// NewPoisson returns the demand of which the mean is wanted, in requests of 1/perQuota:
// Poisson(perQuota*mean)/perQuota. The published tables for CPU burst have 10 per quota.
func NewPoisson(mean, perQuota float64) (Poisson, error) {
	if err := checkPositive("the mean", mean); err != nil {
		return Poisson{}, err
	}
	if err := checkPositive("the number of requests per quota", perQuota); err != nil {
		return Poisson{}, err
	}
	lambda := mean * perQuota
	if !(lambda > 0) || lambda > maxPoisson {
		return Poisson{}, invalid("%v requests per period are too many for a Poisson distribution (at most %v); take gamma of that shape",
			lambda, maxPoisson)
	}
	return Poisson{lambda: lambda, perQuota: perQuota, table: poissonTable(lambda)}, nil
}

// poissonTable holds P(N <= i) until it rounds to 1.
func poissonTable(lambda float64) []float64 {
	var table []float64
	for n := 0; ; n++ {
		p := mathext.GammaIncRegComp(float64(n+1), lambda)
		table = append(table, p)
		if p == 1 {
			return table
		}
		if float64(n) > lambda+50*math.Sqrt(lambda)+50 {
			table[n] = 1
			return table
		}
	}
}

// Mean of the demand.
func (p Poisson) Mean() float64 { return p.lambda / p.perQuota }

// CDF is that of the number of requests that fit in x.
func (p Poisson) CDF(x float64) float64 {
	// What a few roundings take from n/perQuota*perQuota must not cost a request.
	n := math.Floor(x * p.perQuota * (1 + 0x1p-50))
	switch {
	case !(n >= 0):
		return 0
	case n >= float64(len(p.table)):
		return 1
	}
	return p.table[int(n)]
}

// Draw returns one demand, by inversion.
func (p Poisson) Draw(r *rand.Rand) float64 {
	u := r.Float64()
	n, found := slices.BinarySearch(p.table, u)
	if found { // N is n where u lies in [P(N < n), P(N <= n))
		n++
	}
	return float64(n) / p.perQuota
}
