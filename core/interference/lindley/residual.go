package lindley

import (
	"math"

	"pinfold.dev/pinfold/core/demand"
)

// proof is a solution g with what is known of its error: for each pair,
// P(V > b) is at most (1 + share) g(b) + rest exp(-contour b), and at least the same
// with minus.
type proof struct {
	g            []float64
	n            int
	contour      float64
	above, below []margin
	horizon      int
}

type margin struct{ share, rest float64 }

// prove solves the queue of unimodal demand within the horizon and looks how far from its
// fixed point the solution is. False when there is no proof on this lattice.
func prove(d demand.Distribution, mode float64, n, quotas, far int) (proof, bool) {
	within := cut{Distribution: d, horizon: float64(quotas), beyond: tail(d, float64(quotas))}
	l := lattice{groups: 1, n: n, weights: meanWeights(within, n, quotas+1)}
	l.drift = 1 - l.mean()
	theta, ok := l.decay()
	if !ok || l.drift <= 0 {
		return proof{}, false
	}
	rho := l.steepest(theta)
	size := min(powerOfTwo(max(2*quotas+4, 2*far+4, int(2*digits/theta))*n), largest)
	radius := math.Exp(rho / float64(n))
	g, err := l.tails(radius, size)
	if err != nil {
		return proof{}, false
	}
	p := proof{g: falling(l.midway(g, radius)), n: n, contour: rho, horizon: size / 2 / n}
	lower, upper := envelopes(within, mode, n, quotas)
	gap := 1 - upper.phi(rho, n)
	if gap <= 0 {
		return proof{}, false
	}
	residual, over, _ := upper.apply(p.g, n, radius, size)
	p.above = margins(residual, over, lower, n, radius, gap)
	residual, _, under := lower.apply(p.g, n, radius, size)
	for i := range residual {
		residual[i] = -residual[i]
	}
	p.below = margins(residual, under, lower, n, radius, gap)
	return p, true
}

// margins returns, for shares that double, the rest that makes the proof whole:
// (1 + share) x (what A g exceeds g by) - share x P(X > 1 + t) <= rest (1 - phi) exp(-rho t)
// at every t. Within cell i the left side is greatest with the residual of either end,
// the bulge between them, and the lower envelope of P(X > 1 + t) at the right end.
func margins(residual, bulge []float64, below envelope, n int, radius, gap float64) []margin {
	excess := make([]float64, len(residual)-1)
	spare := make([]float64, len(residual)-1)
	for i := range excess {
		excess[i] = max(residual[i], residual[i+1]) + bulge[i]
		if k := n + i + 1; k < len(below) {
			spare[i] = below[k] * math.Exp(math.Log(radius)*float64(i))
		}
	}
	out := []margin{}
	for share := 0x1p-34; share < .5; share *= 2 {
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
	k := b * float64(p.n)
	g, rest := 0.0, math.Exp(-p.contour*b)
	if i := int(k); k < float64(len(p.g)-1) {
		g = p.g[i] + (p.g[i+1]-p.g[i])*(k-float64(i))
	}
	low, high = 0, 1
	for _, m := range p.above {
		high = min(high, (1+m.share)*g+m.rest*rest)
	}
	for _, m := range p.below {
		low = max(low, (1-m.share)*g-m.rest*rest)
	}
	return low, high
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
