package demand

import "math"

// What the exact solution can use of a distribution, beside its CDF: Mode, where the
// density stops rising and begins to fall, and the step of what comes in steps.

// Mode of the demand.
func (e Exponential) Mode() float64 { return 0 }

// Mode of the demand: its minimum.
func (p Pareto) Mode() float64 { return p.minimum }

// Mode of the demand: 0 for shapes up to 1.
func (g Gamma) Mode() float64 { return max(0, g.mean*(g.shape-1)/g.shape) }

// Mode of the demand.
func (l Lognormal) Mode() float64 { return math.Exp(l.mu - l.sigma*l.sigma) }

// PerQuota is the number of steps in one quota: demand is a multiple of 1/PerQuota.
func (p Poisson) PerQuota() float64 { return p.perQuota }
