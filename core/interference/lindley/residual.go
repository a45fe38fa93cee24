package lindley

import (
	"math"

	"pinfold.dev/pinfold/core/demand"
)

// side proves a bound on one side: P(V > b) is at most (1 + share) g(b) + rest exp(-contour b)
// for each margin, or at least the same with minus.
type side struct {
	g       []float64
	margins []margin
}

type margin struct{ share, rest float64 }

// proof is a bound on each side.
type proof struct {
	above, below side
	n            int
	contour      float64
	horizon      int
}

// prove solves the queue of unimodal demand within the horizon, moves the solution up and
// down by what is in doubt, and proves both. False when there is no proof on this
// lattice.
func prove(d demand.Distribution, mode float64, n, quotas, far int) (proof, bool) {
	within := cut{Distribution: d, horizon: float64(quotas), beyond: tail(d, float64(quotas))}
	l := lattice{n: n, weights: meanWeights(within, n, quotas+1)}
	l.drift = 1 - l.mean()
	theta, ok := l.decay()
	if !ok || l.drift <= 0 {
		return proof{}, false
	}
	rho := min(l.steepest(theta), 10/float64(quotas)) // or rounding of the CDF far out weighs too much
	radius := math.Exp(rho / float64(n))
	size := min(powerOfTwo(max(2*quotas+4, 2*far+4, int(2*digits/theta))*n), largest)
	f, err := l.factorize(radius, size)
	lower, upper := envelopes(within, mode, n, quotas)
	gap := 1 - upper.phi(rho, n)
	if err != nil || gap <= 0 {
		return proof{}, false
	}
	g := falling(l.midway(l.tailsOf(f), radius))
	return proof{
		above: f.prove(upper, lower, g, n, gap, 1), below: f.prove(lower, lower, g, n, gap, -1),
		n: n, contour: rho, horizon: size / 2 / n,
	}, true
}

// prove moves g up (sign 1) or down (-1) by what the operator of an envelope adds to it or
// takes from it, and looks what is left to add or take.
func (f factors) prove(e, lower envelope, g []float64, n int, gap, sign float64) side {
	excess := e.excess(g, n, f.radius, len(f.c), sign)
	moved := scaled(f.invert(excess), 1/f.radius, len(g))
	for k, v := range g {
		moved[k] = max(v+sign*moved[k], 0)
	}
	moved = falling(moved)
	excess = e.excess(moved, n, f.radius, len(f.c), sign)
	return side{g: moved, margins: margins(excess, lower, n, f.radius, gap)}
}

// margins returns, for shares that double, the rest that makes the proof whole:
// (1 + share) x (what A g exceeds g by) - share x P(X > 1 + t) <= rest (1 - phi) exp(-rho t)
// at every t. Within a cell the left side is greatest with the lower envelope of P(X > 1 + t)
// at the right end.
func margins(excess []float64, lower envelope, n int, radius, gap float64) []margin {
	spare := make([]float64, len(excess))
	for i := range spare {
		if k := n + i + 1; k < len(lower) {
			spare[i] = lower[k] * math.Exp(math.Log(radius)*float64(i))
		}
	}
	out := []margin{}
	for share := 0x1p-40; share < .5; share *= 4 {
		greatest := 0.0
		for i, v := range excess {
			greatest = max(greatest, (1+share)*v-share*spare[i])
		}
		out = append(out, margin{share: share, rest: greatest * radius / gap})
	}
	return out
}

// at returns the best lower and upper bounds of P(V > b).
func (p proof) at(b float64) (low, high float64) {
	k, rest := b*float64(p.n), math.Exp(-p.contour*b)
	low, high = 0, 1
	for _, m := range p.above.margins {
		high = min(high, (1+m.share)*linear(p.above.g, k)+m.rest*rest)
	}
	for _, m := range p.below.margins {
		low = max(low, (1-m.share)*linear(p.below.g, k)-m.rest*rest)
	}
	return low, high
}

// linear is g between two points.
func linear(g []float64, k float64) float64 {
	i := int(k)
	if i >= len(g)-1 {
		return 0
	}
	return g[i] + (g[i+1]-g[i])*(k-float64(i))
}

// falling makes tails of what rounding may have bent: values from 0 to 1 that do not rise.
func falling(g []float64) []float64 {
	least := 0.0
	for k := len(g) - 1; k >= 0; k-- {
		least = min(max(least, g[k]), 1)
		g[k] = least
	}
	return g
}
