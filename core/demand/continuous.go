package demand

import (
	"cmp"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mathext"
)

// Constant is the same demand in every period.
type Constant struct{ known }

// NewConstant returns the distribution of one value above 0.
func NewConstant(value float64) (Constant, error) {
	return Constant{known{value}}, checkPositive("the value", value)
}

// CDF is a step at the value.
func (c Constant) CDF(x float64) float64 {
	if x >= c.mean {
		return 1
	}
	return 0
}

// Draw returns the value.
func (c Constant) Draw(*rand.Rand) float64 { return c.mean }

// Exponential is the memoryless distribution.
type Exponential struct{ known }

// NewExponential returns the exponential distribution of a mean above 0.
func NewExponential(mean float64) (Exponential, error) {
	return Exponential{known{mean}}, checkPositive("the mean", mean)
}

// Mode of the density.
func (e Exponential) Mode() float64 { return 0 }

// CDF is 1 - exp(-x/mean).
func (e Exponential) CDF(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return -math.Expm1(-x / e.mean)
}

// Draw returns one demand.
func (e Exponential) Draw(r *rand.Rand) float64 { return e.mean * r.ExpFloat64() }

// Gamma is the sum of shape exponential demands; shape need not be an integer. Shape 1 is
// exponential, above it is more regular, below it more bursty. The coefficient of variation is
// 1/sqrt(shape).
type Gamma struct {
	known
	shape float64
}

// NewGamma returns the gamma distribution of a shape and a mean, both above 0.
func NewGamma(shape, mean float64) (Gamma, error) {
	return Gamma{known{mean}, shape}, cmp.Or(checkPositive("the shape", shape), checkPositive("the mean", mean))
}

// Mode of the density: 0 for shapes up to 1.
func (g Gamma) Mode() float64 { return max(0, g.mean*(g.shape-1)/g.shape) }

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

// Draw returns one demand, by the method of Marsaglia and Tsang (2000). The gamma distribution of
// gonum cannot be used because it owns its random source.
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

// Lognormal is the distribution of exp(N) for a normally distributed N.
type Lognormal struct {
	known
	mu, sigma float64
}

// NewLognormal returns the lognormal distribution whose logarithm has the standard deviation
// sigma > 0.
func NewLognormal(sigma, mean float64) (Lognormal, error) {
	l := Lognormal{known{mean}, math.Log(mean) - sigma*sigma/2, sigma}
	return l, cmp.Or(checkPositive("sigma", sigma), checkPositive("the mean", mean))
}

// Mode of the density.
func (l Lognormal) Mode() float64 { return math.Exp(l.mu - l.sigma*l.sigma) }

// CDF is that of the normal distribution, at the logarithm.
func (l Lognormal) CDF(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return math.Erfc((l.mu-math.Log(x))/(l.sigma*math.Sqrt2)) / 2
}

// Draw returns one demand.
func (l Lognormal) Draw(r *rand.Rand) float64 { return math.Exp(l.mu + l.sigma*r.NormFloat64()) }
