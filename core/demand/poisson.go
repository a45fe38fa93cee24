package demand

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mathext"
)

// maxPoisson bounds the mean number of requests, and thereby the size of the table.
const maxPoisson = 1e4

// Poisson is a Poisson-distributed number of requests, each of which uses the same part of the
// quota.
type Poisson struct {
	known
	perQuota float64
	table    []float64 // P(N <= i); the last is 1
}

// NewPoisson returns the distribution of Poisson(perQuota*mean)/perQuota: requests of 1/perQuota
// with the given mean demand. The published tables for CPU burst have 10 requests per quota.
func NewPoisson(mean, perQuota float64) (Poisson, error) {
	if err := cmp.Or(checkPositive("the mean", mean), checkPositive("the number of requests per quota", perQuota)); err != nil {
		return Poisson{}, err
	}
	lambda := mean * perQuota
	if !(lambda > 0) || lambda > maxPoisson {
		return Poisson{}, invalid("%v requests per period are too many for a Poisson distribution (at most %v); take gamma of that shape",
			lambda, maxPoisson)
	}
	return Poisson{known{lambda / perQuota}, perQuota, poissonTable(lambda)}, nil
}

// poissonTable returns P(N <= i) for each i until it rounds to 1.
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

// CDF is that of the number of requests, at the number that fits in x.
func (p Poisson) CDF(x float64) float64 {
	// The factor prevents that rounding of n/perQuota*perQuota loses a request.
	n := math.Floor(x * p.perQuota * (1 + 0x1p-50))
	switch {
	case !(n >= 0):
		return 0
	case n >= float64(len(p.table)):
		return 1
	}
	return p.table[int(n)]
}

// PerQuota is the number of steps in one quota: demand is a multiple of 1/PerQuota.
func (p Poisson) PerQuota() float64 { return p.perQuota }

// Draw returns one demand, by inversion.
func (p Poisson) Draw(r *rand.Rand) float64 {
	u := r.Float64()
	n, found := slices.BinarySearch(p.table, u)
	if found { // N is n where u lies in [P(N < n), P(N <= n))
		n++
	}
	return float64(n) / p.perQuota
}
