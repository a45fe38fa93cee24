package demand

import "math/rand/v2"

// Distribution is the demand of one period, independent of all others.
type Distribution interface {
	// Mean of the demand, > 0; +Inf where there is none.
	Mean() float64
	// CDF is the probability that the demand is at most x.
	CDF(x float64) float64
	// Draw returns one demand, >= 0.
	Draw(r *rand.Rand) float64
}
