package demand

import (
	"math"
	"math/rand/v2"
)

// Exponential is the distribution without memory.
type Exponential struct{ mean float64 }

// NewExponential returns the exponential distribution of a mean above 0.
func NewExponential(mean float64) (Exponential, error) {
	return Exponential{mean}, checkPositive("the mean", mean)
}

// Mean of the demand.
func (e Exponential) Mean() float64 { return e.mean }

// CDF is 1 - exp(-x/mean).
func (e Exponential) CDF(x float64) float64 {
	if !(x > 0) {
		return 0
	}
	return -math.Expm1(-x / e.mean)
}

// Draw returns one demand.
func (e Exponential) Draw(r *rand.Rand) float64 { return e.mean * r.ExpFloat64() }

// Constant is the same demand in every period.
type Constant struct{ value float64 }

// NewConstant returns the distribution of one value above 0.
func NewConstant(value float64) (Constant, error) {
	return Constant{value}, checkPositive("the value", value)
}

// Mean is the value.
func (c Constant) Mean() float64 { return c.value }

// CDF is a step at the value.
func (c Constant) CDF(x float64) float64 {
	if x >= c.value {
		return 1
	}
	return 0
}

// Draw returns the value.
func (c Constant) Draw(*rand.Rand) float64 { return c.value }
