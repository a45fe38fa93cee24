package lindley

import (
	"math"

	"pinfold.dev/pinfold/core/demand"
)

// sameAmount is how much amounts may differ relatively and be the same: CDFs allow for
// some units in the last place.
const sameAmount = 0x1p-48

// roundUp moves demand up to the next point of the lattice. Demand beyond the last
// counts as none: see rareJumps.
func roundUp(d demand.Distribution, n, horizon int) lattice {
	return rounded(n, horizon, func(k int) float64 { return tail(d, float64(k)/float64(n)) })
}

// roundDown moves demand down to the point of the lattice before it.
func roundDown(d demand.Distribution, n, horizon int) lattice {
	last := n * horizon
	return rounded(n, horizon, func(k int) float64 {
		if k >= last {
			return tail(d, float64(horizon))
		}
		return tail(d, float64(k+1)/float64(n)*(1-sameAmount))
	})
}

// rounded makes a lattice from P(rounded demand > k/n).
func rounded(n, horizon int, tail func(k int) float64) lattice {
	l := lattice{n: n, weights: make([]float64, n*horizon+1)}
	left := 1.0
	for k := range l.weights {
		right := min(tail(k), left)
		l.weights[k] = left - right
		if left = right; left == 0 {
			break
		}
	}
	l.weights[0] += left
	l.drift = 1 - l.mean()
	return l
}

// certified is a solution of which the error is known: at every point k of the lattice
// |P(V > k/n) - g[k]| <= err exp(-contour k/n).
type certified struct {
	g       []float64
	err     float64
	contour float64
	horizon int
	n       int
}

// at returns P(V > b) at the lattice point before b, or at b if that is the same amount.
func (c certified) at(b float64) (low, high float64) {
	k := b * float64(c.n) * (1 + sameAmount)
	if k >= float64(len(c.g)) {
		return 0, c.err * math.Exp(-c.contour*float64(len(c.g))/float64(c.n))
	}
	g, e := c.g[int(k)], c.err*math.Exp(-c.contour*math.Floor(k)/float64(c.n))
	return max(g-e, 0), min(g+e, 1)
}

// certify solves the queue on the lattice and bounds the error by the residual. False
// when demand on the lattice is the quota or more. Scaled by radius^k the operator
// shrinks differences by phi < 1 in the maximum norm, so the error is at most
// residual / (1 - phi); that also covers what the solution neglects.
func (l lattice) certify(quotas, far int) (certified, bool) {
	theta, ok := l.decay()
	if !ok {
		return certified{g: []float64{0}, contour: 1, horizon: quotas, n: l.n}, true
	}
	if l.drift <= 0 {
		return certified{}, false
	}
	rho := l.steepest(theta)
	wanted := max(2*quotas+2, 2*far+4, int(3*digits/theta))
	size := min(powerOfTwo(wanted*l.n), largest)
	radius := math.Exp(rho / float64(l.n))
	g, err := l.tails(radius, size)
	if err != nil {
		return certified{}, false
	}
	residual, phi := l.residual(g, radius, size)
	if phi >= 1 {
		return certified{}, false
	}
	return certified{g: scaled(g, 1/radius, len(g)), err: residual / (1 - phi), contour: rho, horizon: size / 2 / l.n, n: l.n}, true
}

// steepest is where phi is least, between 0 and theta.
func (l lattice) steepest(theta float64) float64 {
	low, high := 0.0, theta
	for range 8 {
		a, b := low+(high-low)*.38, low+(high-low)*.62
		if l.phi(a) < l.phi(b) {
			high = b
		} else {
			low = a
		}
	}
	return (low + high) / 2
}

// residual is the greatest |A g - g| of scaled tails g, at all points, with what rounding in the
// transforms can add; and phi.
func (l lattice) residual(g []float64, radius float64, size int) (residual, phi float64) {
	shrink := math.Pow(radius, -float64(l.n))
	p := scaled(l.weights, radius, len(l.weights))
	for k := range p {
		p[k] *= shrink
	}
	phi = sum(p)
	beyond := beyond(l.weights)
	next := convolve(g, p, size)
	for i := range size - l.n {
		v := next[l.n+i]
		if k := l.n + i; k < len(beyond) {
			v += beyond[k] * math.Exp(math.Log(radius)*float64(i))
		}
		if i < len(g) {
			v -= g[i]
		}
		residual = max(residual, math.Abs(v))
	}
	return residual + noise(g, p, size), phi
}

// beyond is the sum of the weights after each.
func beyond(weights []float64) []float64 {
	out := make([]float64, len(weights))
	total := 0.0
	for k := len(weights) - 1; k >= 0; k-- {
		out[k] = total
		total += weights[k]
	}
	return out
}
