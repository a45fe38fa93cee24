package demand

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Distribution is the demand of one period, independent of all others.
type Distribution interface {
	// Mean of the demand, > 0; +Inf if it has none.
	Mean() float64
	// CDF is the probability that the demand is at most x.
	CDF(x float64) float64
	// Draw returns one demand, >= 0.
	Draw(r *rand.Rand) float64
}

// Process is demand that may depend on earlier periods.
type Process interface {
	// Mean demand of a period in the long run, > 0.
	Mean() float64
	// Start returns a source in a random stationary state, independent of other sources.
	Start(r *rand.Rand) Source
}

// Source is one group's demand over time.
type Source interface {
	// Next returns the demand of the next period, >= 0.
	Next(r *rand.Rand) float64
}

// Independent is a process that draws each period from a distribution.
type Independent struct{ Distribution }

// Start returns a source of draws.
func (i Independent) Start(*rand.Rand) Source { return drawing(i) }

type drawing struct{ Distribution }

func (d drawing) Next(r *rand.Rand) float64 { return d.Draw(r) }

// known is the mean of a demand.
type known struct{ mean float64 }

// Mean of the demand.
func (k known) Mean() float64 { return k.mean }

func invalid(format string, args ...any) error {
	return fmt.Errorf("invalid demand: "+format, args...)
}

// checkPositive returns an error unless the parameter is a positive, finite number.
func checkPositive(name string, value float64) error {
	if !(value > 0) || math.IsInf(value, 1) {
		return invalid("%s is %v; it must be a number above 0", name, value)
	}
	return nil
}
