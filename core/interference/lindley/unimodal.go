package lindley

import (
	"math"

	"pinfold.dev/pinfold/core/demand"
)

// Unimodal is demand whose density rises up to Mode and falls from there on; besides,
// some of it may be exactly 0. Exponential (mode 0), Pareto (its minimum), gamma and
// lognormal demand are. For it the bounds are far narrower.
type Unimodal interface {
	demand.Distribution
	Mode() float64
}

// cut is demand of which what lies beyond the horizon counts as none.
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

// envelope is P(X > x) at the points k/n and linear in between: a density that is
// constant in each cell.
type envelope []float64

// parts of a cell at whose ends the CDF is looked up.
const parts = 4

// envelopes returns tails that lie below and above that of demand everywhere. Where the
// density falls, P(X > x) is convex: the chord of a cell lies above it, and below lies the
// chord lowered by the dip. Where it rises, the chord lies below, and that of the next
// cell, drawn on backwards, above. In the cell of the mode a chord drawn on backwards
// still lies below, since it does so at both ends of the concave part; above lies what
// P(X > x) is at the beginning of the cell. What lies below may be negative and may rise.
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
		drawn := 2*next - fine[parts*(k+2)]
		switch {
		case falls(k):
			low := dip(fine, k, k == 0 || !falls(k-1))
			below[k] = min(below[k], at-low)
			below[k+1] = min(below[k+1], next-low)
			continue
		case !rises(k):
			below[k] = min(below[k], drawn)
		}
		if rises(k) && rises(k+1) && drawn <= 1 {
			above[k] = max(above[k], drawn)
		} else {
			above[k+1] = max(above[k+1], at)
		}
	}
	for k := range last {
		above[last-k-1] = max(above[last-k-1], above[last-k])
	}
	return below, above
}

// dip bounds how far convex tails go below their chord in cell k. In each part of the cell
// they lie above the prolongations of the chords of the neighbouring parts; in the first
// part of all only the right one is known.
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

// phi bounds E exp(rho (X - 1)) from above.
func (e envelope) phi(rho float64, n int) float64 {
	total, before := 0.0, 1.0
	for k, v := range e {
		total += (before - v) * math.Exp(rho*(float64(k)/float64(n)-1))
		before = v
	}
	return total
}

// excess is by how much A g is above g at most (sign 1), or below it (-1), in each cell,
// times radius^i. The queue g is piecewise linear like the envelope: V is 0, or anywhere
// in a cell alike. Then A g is piecewise quadratic: from its values at the points it
// bulges by an eighth of its second difference.
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

// averages returns those of the cells, and by how much the masses of cells k and k-1
// differ.
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

// differences is g[k] - g[k+1], with 0 after the end.
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
