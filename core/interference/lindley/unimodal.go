package lindley

import (
	"math"

	"pinfold.dev/pinfold/core/demand"
)

// Unimodal is demand whose density rises up to Mode and falls beyond it; it may have an atom at 0.
// Exponential (mode 0), Pareto (mode at its minimum), gamma and lognormal demand are unimodal.
// Their bounds are much narrower.
type Unimodal interface {
	demand.Distribution
	Mode() float64
}

// cut is demand truncated at the horizon: demand beyond it counts as 0.
type cut struct {
	demand.Distribution
	horizon float64
	beyond  float64 // P(X > horizon)
}

func (c cut) CDF(x float64) float64 {
	if x >= c.horizon {
		return 1
	}
	return min(c.Distribution.CDF(x)+c.beyond, 1)
}

// envelope is P(X > x) at the points k/n and linear in between: a density that is constant in each
// cell.
type envelope []float64

// The CDF is evaluated at the ends of parts of a cell.
const parts = 4

// envelopes returns tails that are below and above the tail of demand everywhere. Where the density
// falls, P(X > x) is convex: the chord of a cell is above it, and the chord lowered by the dip is
// below it. Where the density rises, the chord is below, and the chord of the next cell, extended
// backwards, is above. In the cell of the mode a chord extended backwards is still below, because
// it is at both ends of the concave part; P(X > x) at the beginning of the cell is above. The lower
// envelope may be negative and may rise.
func envelopes(d demand.Distribution, mode float64, n, horizon int) (below, above envelope) {
	last := n * horizon
	fine := make([]float64, parts*(last+3))
	for j := range parts * last {
		fine[j] = tail(d, float64(j)/float64(parts*n))
	}
	below, above = make(envelope, last+3), make(envelope, last+3)
	for k := range last {
		below[k] = fine[parts*k]
	}
	copy(above, below)
	rises := func(k int) bool { return float64(k+1)/float64(n) <= mode }
	falls := func(k int) bool { return float64(k)/float64(n) >= mode }
	for k := range last {
		at, next := fine[parts*k], fine[parts*(k+1)]
		extended := 2*next - fine[parts*(k+2)]
		switch {
		case falls(k):
			low := dip(fine, k, k == 0 || !falls(k-1))
			below[k] = min(below[k], at-low)
			below[k+1] = min(below[k+1], next-low)
			continue
		case !rises(k):
			below[k] = min(below[k], extended)
		}
		if rises(k) && rises(k+1) && extended <= 1 {
			above[k] = max(above[k], extended)
		} else {
			above[k+1] = max(above[k+1], at)
		}
	}
	for k := range last {
		above[last-k-1] = max(above[last-k-1], above[last-k])
	}
	return below, above
}

// dip bounds how far a convex tail goes below its chord in cell k. In each part of the cell the
// tail is above the extended chords of the neighbouring parts; in the first part of the first cell
// only the right one is known.
func dip(fine []float64, k int, first bool) float64 {
	deepest, at, next := 0.0, fine[parts*k], fine[parts*(k+1)]
	for i := range parts {
		j := parts*k + i
		depth := max(fine[j]-2*fine[j+1]+fine[j+2], 0)
		if !first || i > 0 {
			if left := max(fine[j-1]-2*fine[j]+fine[j+1], 0); left+depth > 0 {
				depth *= left / (left + depth)
			}
		}
		before := at + (next-at)*float64(i)/parts - fine[j]
		after := at + (next-at)*float64(i+1)/parts - fine[j+1]
		deepest = max(deepest, max(before, after)+depth)
	}
	return deepest
}

// phi returns an upper bound of E exp(rho (X - 1)).
func (e envelope) phi(rho float64, n int) float64 {
	total, before := 0.0, 1.0
	for k, v := range e {
		total += (before - v) * math.Exp(rho*(float64(k)/float64(n)-1))
		before = v
	}
	return total
}

// excess bounds A g - g (sign 1), or g - A g (sign -1), from above in each cell, times radius^i.
// The queue g is piecewise linear like the envelope, so V is 0 or uniform within a cell. Then A g
// is piecewise quadratic: between lattice points it exceeds its chord by an eighth of its second
// difference.
func (e envelope) excess(g []float64, n int, radius float64, size int, sign float64) []float64 {
	masses := scaled(differences(g), radius, len(g))
	averages, bends := e.averages()
	averages, bends = scaled(averages, radius, len(averages)), scaled(bends, radius, len(bends))
	moved, bent := convolve(masses, averages, size), convolve(masses, bends, size)
	shrink := math.Pow(radius, 1-float64(n))
	doubt := noise(masses, averages, size) * shrink
	out := make([]float64, size-n-1)
	last := math.Inf(-1)
	for i := range size - n {
		v, power := moved[n+i-1]*shrink, math.Exp(math.Log(radius)*float64(i))
		if n+i < len(e) {
			v += (1 - g[0]) * e[n+i] * power
		}
		if n+i < len(g) {
			v += g[n+i] * power
		}
		if i < len(g) {
			v -= g[i] * power
		}
		if v *= sign; i > 0 {
			bulge := sign * bent[n+i-1] * shrink / radius / 8
			out[i-1] = max(last, v) + max(bulge, 0) + 2*doubt
		}
		last = v
	}
	return out
}

// averages returns the average of each cell, and how much the masses of cells k and k-1 differ.
func (e envelope) averages() (averages, bends []float64) {
	averages, bends = make([]float64, len(e)), make([]float64, len(e)+1)
	before := 0.0
	for k := range e {
		next := 0.0
		if k+1 < len(e) {
			next = e[k+1]
		}
		averages[k] = (e[k] + next) / 2
		bends[k] = (e[k] - next) - before
		before = e[k] - next
	}
	return averages, bends
}

// differences returns g[k] - g[k+1], with 0 after the end.
func differences(g []float64) []float64 {
	out := make([]float64, len(g))
	for k, v := range g {
		out[k] = v
		if k+1 < len(g) {
			out[k] -= g[k+1]
		}
	}
	return out
}

// side is a proven bound on one side: for each margin, P(V > b) is at most (1 + share) g(b) + rest
// exp(-contour b); for a lower bound, at least (1 - share) g(b) - rest exp(-contour b).
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

// prove solves the queue of unimodal demand up to the horizon, moves the solution up and down by
// the possible error, and proves both. It returns false if there is no proof on this lattice.
func prove(d demand.Distribution, mode float64, n, quotas, far int) (proof, bool) {
	within := cut{Distribution: d, horizon: float64(quotas), beyond: tail(d, float64(quotas))}
	l := newLattice(meanWeights(within, n, quotas+1), n)
	theta, ok := l.decay()
	if !ok || l.drift <= 0 {
		return proof{}, false
	}
	rho := min(l.steepest(theta), 10/float64(quotas)) // beyond, rounding errors of the CDF's tail weigh too much
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

// prove moves g up (sign 1) or down (-1) by the error that the operator A of an envelope reveals
// (see lattice.certify), and bounds the error that remains. The two factors invert g - A g. Applied
// to the residual A g - g, this inverse gives the correction that raises g to an upper bound.
// Besides exp(-rho t), a multiple of g itself serves as a margin: (1 + c) g is an upper bound if (1
// + c) (A g - g) <= c P(X > 1 + t).
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

// margins returns, for growing shares, the rest that completes the proof: (1 + share) (A g - g) -
// share P(X > 1 + t) <= rest (1 - phi) exp(-rho t) at every t. Within a cell the left side is
// greatest with the lower envelope of P(X > 1 + t) at the right end.
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

// linear interpolates g linearly.
func linear(g []float64, k float64) float64 {
	i := int(k)
	if i >= len(g)-1 {
		return 0
	}
	return g[i] + (g[i+1]-g[i])*(k-float64(i))
}

// falling makes g a tail: values from 0 to 1 that do not rise. Rounding may have bent it.
func falling(g []float64) []float64 {
	least := 0.0
	for k := len(g) - 1; k >= 0; k-- {
		least = min(max(least, g[k]), 1)
		g[k] = least
	}
	return g
}
