package demand

import "math/rand/v2"

// Process is demand that may depend on what was before.
type Process interface {
	// Mean demand of a period in the long run, > 0.
	Mean() float64
	// Start returns a source in a random state of the long run, independent of others.
	Start(r *rand.Rand) Source
}

// Source is one group's demand over time.
type Source interface {
	// Next returns the demand of the next period, >= 0.
	Next(r *rand.Rand) float64
}

// Independent is a distribution as a process: each period is drawn anew.
type Independent struct{ Distribution }

// Start returns a source of draws.
func (i Independent) Start(*rand.Rand) Source { return drawing(i) }

type drawing struct{ Distribution }

func (d drawing) Next(r *rand.Rand) float64 { return d.Draw(r) }
