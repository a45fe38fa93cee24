package lindley

import (
	"math"

	"pinfold.dev/pinfold/core/demand"
)

// tail is P(X > x), of CDFs too that rounding lifts above 1.
func tail(d demand.Distribution, x float64) float64 { return max(1-d.CDF(x), 0) }

// meanWeights spreads demand over the points k/n so that mass and mean are kept: what
// lies between two points goes to both, more to the nearer one. With I(k) the average of
// P(X > x) over cell k, point k gets I(k-1) - I(k). It returns n x horizon + 1 weights;
// what lies beyond the horizon is left out.
func meanWeights(d demand.Distribution, n, horizon int) []float64 {
	weights := make([]float64, n*horizon+1)
	h := 1 / float64(n)
	before, left := 1.0, tail(d, 0)
	for k := range weights {
		if left == 0 {
			weights[k] = before
			break
		}
		right := tail(d, float64(k+1)*h)
		average := cellAverage(d, float64(k)*h, h, left, right, 0)
		weights[k] = before - average
		before, left = average, right
	}
	return weights
}

// Simpson's rule is kept where the curve bends by no more than kink in a cell, else the
// cell is halved until what is in doubt is below negligible: jumps and kinks are found.
const (
	kink       = 1e-4
	negligible = 1e-10
)

// cellAverage is the average of P(X > x) from x to x+width.
func cellAverage(d demand.Distribution, x, width, left, right float64, depth int) float64 {
	middle := tail(d, x+width/2)
	bend := math.Abs(left - 2*middle + right)
	if bend <= kink || bend*math.Ldexp(1, -depth) < negligible || depth > 40 {
		return (left + 4*middle + right) / 6
	}
	return (cellAverage(d, x, width/2, left, middle, depth+1) + cellAverage(d, x+width/2, width/2, middle, right, depth+1)) / 2
}

// coarsen returns meanWeights of half as many points from those of n. The hat over two
// fine cells is made of three fine ones.
func coarsen(fine []float64) []float64 {
	coarse := make([]float64, (len(fine)+1)/2)
	for k := range coarse {
		coarse[k] = fine[2*k]
		if k > 0 {
			coarse[k] += fine[2*k-1] / 2
		}
		if 2*k+1 < len(fine) {
			coarse[k] += fine[2*k+1] / 2
		}
	}
	return coarse
}
