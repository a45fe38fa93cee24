package demand

import (
	"math"
	"math/rand/v2"
)

// Lognormal is the distribution of exp(N) for a normally distributed N.
type Lognormal struct{ mu, sigma, mean float64 }

// NewLognormal returns the lognormal distribution of which the logarithm has the
// standard deviation sigma > 0.
func NewLognormal(sigma, mean float64) (Lognormal, error) {
	if err := checkPositive("sigma", sigma); err != nil {
		return Lognormal{}, err
	}
	l := Lognormal{mu: math.Log(mean) - sigma*sigma/2, sigma: sigma, mean: mean}
	return l, checkPositive("the mean", mean)
}

// Mean of the demand.
func (l Lognormal) Mean() float64 { return l.mean }

// CDF is that of the normal distribution, at the logarithm.
func (l Lognormal) CDF(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return math.Erfc((l.mu-math.Log(x))/(l.sigma*math.Sqrt2)) / 2
}

// Draw returns one demand.
func (l Lognormal) Draw(r *rand.Rand) float64 { return math.Exp(l.mu + l.sigma*r.NormFloat64()) }
