package lindley

import (
	"math"

	"pinfold.dev/pinfold/core/demand"
)

// lattice is the queue of a group whose demand is k/n with probability weights[k], in quotas.
type lattice struct {
	weights []float64
	n       int
	drift   float64 // 1 - mean demand
}

func newLattice(weights []float64, n int) lattice {
	l := lattice{weights: weights, n: n}
	l.drift = 1 - l.mean()
	return l
}

// mean returns the mean demand.
func (l lattice) mean() float64 {
	m := 0.0
	for k, w := range l.weights {
		m += float64(k) * w
	}
	return m / float64(l.n)
}

// tail returns P(X > x), and 0 where rounding lifts the CDF above 1.
func tail(d demand.Distribution, x float64) float64 { return max(1-d.CDF(x), 0) }

// meanWeights discretises demand to the points k/n such that its mass and mean are preserved: mass
// between two points goes to both, more to the nearer. With I(k) the average of P(X > x) over cell
// k, point k gets I(k-1) - I(k). It returns n x horizon + 1 weights and omits demand beyond the
// horizon.
func meanWeights(d demand.Distribution, n, horizon int) []float64 {
	weights := make([]float64, n*horizon+1)
	h := 1 / float64(n)
	before, left := 1.0, tail(d, 0)
	for k := range weights {
		if left == 0 {
			weights[k] = before
			break
		}
		right := tail(d, float64(k+1)*h)
		average := cellAverage(d, float64(k)*h, h, left, right, 0)
		weights[k] = before - average
		before, left = average, right
	}
	return weights
}

// Simpson's rule is used for a cell in which the curve bends by at most kink. Otherwise the cell is
// halved, which finds jumps and kinks, until the possible error is below negligible.
const (
	kink       = 1e-4
	negligible = 1e-10
)

// cellAverage returns the average of P(X > x) from x to x+width.
func cellAverage(d demand.Distribution, x, width, left, right float64, depth int) float64 {
	middle := tail(d, x+width/2)
	bend := math.Abs(left - 2*middle + right)
	if bend <= kink || bend*math.Ldexp(1, -depth) < negligible || depth > 40 {
		return (left + 4*middle + right) / 6
	}
	return (cellAverage(d, x, width/2, left, middle, depth+1) + cellAverage(d, x+width/2, width/2, middle, right, depth+1)) / 2
}

// coarsen returns the meanWeights of n/2 points from those of n: each coarse point collects a fine
// point and half of both neighbours.
func coarsen(fine []float64) []float64 {
	coarse := make([]float64, (len(fine)+1)/2)
	for k := range coarse {
		coarse[k] = fine[2*k]
		if k > 0 {
			coarse[k] += fine[2*k-1] / 2
		}
		if 2*k+1 < len(fine) {
			coarse[k] += fine[2*k+1] / 2
		}
	}
	return coarse
}

// Amounts that differ relatively by less than sameAmount count as equal, because CDFs are exact to
// some units in the last place only.
const sameAmount = 0x1p-48

// roundUp rounds demand up to the next lattice point. Demand beyond the last point is omitted: see
// rareJumps.
func roundUp(d demand.Distribution, n, horizon int) lattice {
	return rounded(n, horizon, func(k int) float64 { return tail(d, float64(k)/float64(n)) })
}

// roundDown rounds demand down to the previous lattice point.
func roundDown(d demand.Distribution, n, horizon int) lattice {
	last := n * horizon
	return rounded(n, horizon, func(k int) float64 {
		if k >= last {
			return tail(d, float64(horizon))
		}
		return tail(d, float64(k+1)/float64(n)*(1-sameAmount))
	})
}

// rounded returns the lattice with the given tail k -> P(rounded demand > k/n).
func rounded(n, horizon int, tail func(k int) float64) lattice {
	weights := make([]float64, n*horizon+1)
	left := 1.0
	for k := range weights {
		right := min(tail(k), left)
		weights[k] = left - right
		if left = right; left == 0 {
			break
		}
	}
	weights[0] += left
	return newLattice(weights, n)
}

// certified is a solution with a proven error: |P(V > k/n) - g[k]| <= err exp(-contour k/n) at
// every lattice point k.
type certified struct {
	g       []float64
	err     float64
	contour float64
	horizon int
	n       int
}

// at returns bounds of P(V > b) at the lattice point before b, or at b if that is the same amount.
func (c certified) at(b float64) (low, high float64) {
	k := b * float64(c.n) * (1 + sameAmount)
	if k >= float64(len(c.g)) {
		return 0, c.err * math.Exp(-c.contour*float64(len(c.g))/float64(c.n))
	}
	g, e := c.g[int(k)], c.err*math.Exp(-c.contour*math.Floor(k)/float64(c.n))
	return max(g-e, 0), min(g+e, 1)
}

// certify solves the queue on the lattice and proves a bound of the error. Let G be tails P(V > t),
// and
//
//	(A G)(t) = P(X > 1 + t) + E[G(1 + t - X); X <= 1 + t]
//
// the tails one period later. A is monotone in G and in demand. In the norm sup G(t) exp(rho t) it
// contracts differences by phi = E exp(rho (X - 1)), which is below 1 for small rho > 0. Hence the
// error of any guess G, however obtained, is at most |A G - G| / (1 - phi) in that norm, and
// includes everything that the solution neglects. certify returns false if mean demand on the
// lattice is the quota or more, or if the solution or its proof fails.
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

// steepest returns the rho between 0 and theta that minimises phi.
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

// residual returns the maximum of |A g - g| over the lattice for scaled tails g, including what
// rounding in the transforms can add, and phi.
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

// beyond returns the sum of the weights after each.
func beyond(weights []float64) []float64 {
	out := make([]float64, len(weights))
	total := 0.0
	for k := len(weights) - 1; k >= 0; k-- {
		out[k] = total
		total += weights[k]
	}
	return out
}
