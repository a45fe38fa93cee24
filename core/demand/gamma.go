package demand

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mathext"
)

// Gamma is the sum of shape exponential demands, where the shape may be any number: at 1
// it is exponential, above 1 more regular, below 1 more bursty. Its coefficient of
// variation is 1/sqrt(shape).
type Gamma struct{ shape, mean float64 }

// NewGamma returns the gamma distribution of a shape and a mean, both above 0.
func NewGamma(shape, mean float64) (Gamma, error) {
	if err := checkPositive("the shape", shape); err != nil {
		return Gamma{}, err
	}
	return Gamma{shape: shape, mean: mean}, checkPositive("the mean", mean)
}

// Mean of the demand.
func (g Gamma) Mean() float64 { return g.mean }

// CDF is the regularised incomplete gamma function.
func (g Gamma) CDF(x float64) float64 {
	switch {
	case !(x > 0):
		return 0
	case math.IsInf(x, 1):
		return 1
	}
	return mathext.GammaIncReg(g.shape, x*g.shape/g.mean)
}

// Draw returns one demand, after Marsaglia and Tsang (2000).
func (g Gamma) Draw(r *rand.Rand) float64 {
	shape, boost := g.shape, 1.0
	if shape < 1 { // a gamma of shape+1 times U^(1/shape)
		boost = math.Exp(-r.ExpFloat64() / shape)
		shape++
	}
	d := shape - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for {
		x := r.NormFloat64()
		v := 1 + c*x
		if v <= 0 {
			continue
		}
		v *= v * v
		// ExpFloat64 is -log of a uniform number.
		if -r.ExpFloat64() < x*x/2+d-d*v+d*math.Log(v) {
			return g.mean / g.shape * boost * d * v
		}
	}
}
