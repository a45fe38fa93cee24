package demand

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
)

// Pareto is the distribution with P(X > x) = (minimum/x)^shape for x >= minimum. The published
// tables for CPU burst use shape 4.
type Pareto struct {
	known
	Shape   float64 // exponent of the tail
	Minimum float64 // the smallest demand
	Bound   float64 // the largest demand, or +Inf if it is not truncated
	below   float64 // probability of values up to the bound, before truncation
}

// NewPareto returns the Pareto distribution of a shape above 1 and a mean.
func NewPareto(shape, mean float64) (Pareto, error) {
	if err := cmp.Or(checkPositive("the mean", mean), checkPositive("the shape", shape)); err != nil {
		return Pareto{}, err
	}
	if shape <= 1 {
		return Pareto{}, invalid("a Pareto distribution of shape %v has no finite mean; take a shape above 1, or truncate it", shape)
	}
	return Pareto{known{mean}, shape, mean * (shape - 1) / shape, math.Inf(1), 1}, nil
}

// NewTruncatedPareto returns the Pareto distribution conditioned on values up to bound. The mean is
// that of the truncated distribution and must be below the bound.
func NewTruncatedPareto(shape, mean, bound float64) (Pareto, error) {
	err := errors.Join(checkPositive("the mean", mean), checkPositive("the shape", shape), checkPositive("the bound", bound))
	if err != nil {
		return Pareto{}, err
	}
	if mean >= bound {
		return Pareto{}, invalid("a demand of at most %v cannot have the mean %v", bound, mean)
	}
	logRatio := truncatedRatio(shape, mean/bound)
	p := Pareto{known{mean}, shape, bound * math.Exp(logRatio), bound, -math.Expm1(shape * logRatio)}
	if !(p.Minimum > 0) || !(p.below > 0) {
		return Pareto{}, invalid("no Pareto distribution of shape %v up to %v has the mean %v within the precision of floating-point numbers",
			shape, bound, mean)
	}
	return p, nil
}

// truncatedRatio returns the logarithm of minimum/bound for a mean that is given as a part of the
// bound. The mean is the integral of x shape minimum^shape x^(-shape-1), divided by the probability
// below the bound; the shape cancels against the divisors in rise.
func truncatedRatio(shape, mean float64) float64 {
	low, high := -700.0, 0.0
	for range 200 {
		middle := (low + high) / 2
		if math.Exp(middle)*rise(shape-1, middle)/rise(shape, middle) < mean {
			low = middle
		} else {
			high = middle
		}
	}
	return (low + high) / 2
}

// rise returns (1 - exp(s*logRatio))/s, or its limit at s = 0.
func rise(s, logRatio float64) float64 {
	if s == 0 {
		return -logRatio
	}
	return -math.Expm1(s*logRatio) / s
}

// Mode of the density: the minimum.
func (p Pareto) Mode() float64 { return p.Minimum }

// CDF is 1 - (minimum/x)^shape, divided by its value at the bound.
func (p Pareto) CDF(x float64) float64 {
	switch {
	case !(x > p.Minimum):
		return 0
	case x >= p.Bound:
		return 1
	}
	return min(-math.Expm1(p.Shape*math.Log(p.Minimum/x))/p.below, 1)
}

// Draw returns one demand, by inversion.
func (p Pareto) Draw(r *rand.Rand) float64 {
	tail := 1 - p.below*r.Float64() // Float64 is below 1, so this is above 0
	return min(p.Minimum*math.Exp(-math.Log(tail)/p.Shape), p.Bound)
}
