package lindley

import (
	"fmt"
	"math"

	"pinfold.dev/pinfold/core/demand"
)

const (
	// Demand up to lightSupport quotas is solved on a contour outside the unit circle.
	lightSupport = 64
	// Aliased terms of the transforms are smaller than exp(-digits).
	digits = 36.0
)

// Estimate returns the probability that a period is throttled for each burst, without bounds. It
// solves on lattices of steps and steps/2 points per quota and removes the error, which falls as
// 1/steps^2, by Richardson extrapolation. At 256 steps what remains is 1e-10 for exponential demand
// and 1e-7 for Pareto of shape 4, which has a kink; both at u = .7, b = 0 to 4. It suits demand
// with a density. For demand with atoms off the lattice use [Bounds].
//
// Bounded demand, whose CDF becomes 1, is solved outside the unit circle, halfway to where E r^Y is
// 1 again. Heavy-tailed demand has no moments there. It is solved slightly inside, without being
// truncated; if that fails, nearer to 1, and as a last resort truncated.
func Estimate(d demand.Distribution, bursts []float64, steps int) ([]float64, Method, error) {
	steps, far, err := prepare(d, bursts, steps)
	if err != nil {
		return nil, Method{}, err
	}
	quotas, light := support(d, lightSupport)
	if light {
		if err := checkMean(d, steps, quotas); err != nil {
			return nil, Method{}, err
		}
		return bounded(d, bursts, steps, quotas, far)
	}
	horizon := powerOfTwo(max(lightSupport, 4*far+4))
	for range 3 {
		if horizon*steps > largest {
			break
		}
		l := lattice{n: steps, drift: 1 - d.Mean(), weights: meanWeights(d, steps, horizon)}
		result, method, err := richardson(l, bursts, horizon, -digits/float64(horizon))
		if err == nil {
			return result, method, nil
		}
		horizon *= 2
	}
	quotas, jumps := farEnough(d, steps)
	if jumps >= 1 {
		return nil, Method{}, tooHeavy()
	}
	within := cut{Distribution: d, horizon: float64(quotas), beyond: tail(d, float64(quotas))}
	result, method, err := bounded(within, bursts, steps, quotas, far)
	if err != nil {
		return nil, Method{}, tooHeavy()
	}
	return result, method, nil
}

// bounded estimates for demand of at most quotas quotas, on a contour outside the unit circle.
func bounded(d demand.Distribution, bursts []float64, steps, quotas, far int) ([]float64, Method, error) {
	l := newLattice(meanWeights(d, steps, quotas+1), steps)
	theta, ok := l.decay()
	if !ok {
		return make([]float64, len(bursts)), Method{Name: "demand stays within the quota", Steps: steps, Horizon: quotas}, nil
	}
	horizon := powerOfTwo(max(quotas+2, 2*far+4, int(2*digits/theta)))
	if horizon*steps > largest {
		return nil, Method{}, fmt.Errorf("mean demand %v: its estimate %w with %d steps; try fewer", d.Mean(), ErrUncertain, steps)
	}
	return richardson(l, bursts, horizon, theta/2)
}

// checkMean compares the mean that the CDF gives, with demand rounded down and up to the lattice,
// with the mean that the distribution states.
func checkMean(d demand.Distribution, steps, quotas int) error {
	low, high := roundDown(d, steps, quotas).mean(), roundUp(d, steps, quotas).mean()
	if mean := d.Mean(); !(low <= mean*(1+1e-9) && mean <= high*(1+1e-9)) {
		return fmt.Errorf("mean demand is %v, and from %v to %v by its CDF: %w", mean, low, high, ErrDemand)
	}
	return nil
}

// richardson solves on the lattice and on one of half the steps, and extrapolates.
func richardson(fine lattice, bursts []float64, horizon int, contour float64) ([]float64, Method, error) {
	coarse := lattice{n: fine.n / 2, drift: fine.drift, weights: coarsen(fine.weights)}
	rough, err := coarse.exceed(bursts, horizon, contour)
	if err != nil {
		return nil, Method{}, err
	}
	result, err := fine.exceed(bursts, horizon, contour)
	if err != nil {
		return nil, Method{}, err
	}
	for i, p := range result {
		result[i] = min(max(p+(p-rough[i])/3, 0), 1)
	}
	return result, Method{Name: "Wiener-Hopf by FFT, Richardson", Steps: fine.n, Horizon: horizon}, nil
}

// exceed returns P(V > b) for each burst. The lattice represents a density, so half of the mass at
// b counts as above it.
func (l lattice) exceed(bursts []float64, horizon int, contour float64) ([]float64, error) {
	radius := math.Exp(contour / float64(l.n))
	g, err := l.tails(radius, l.n*horizon)
	if err != nil {
		return nil, err
	}
	nodes := l.midway(g, radius)
	out := make([]float64, len(bursts))
	for i, b := range bursts {
		if !math.IsInf(b, 1) {
			out[i] = interpolate(nodes, b*float64(l.n))
		}
	}
	return out, nil
}

// midway undoes the scaling of tails and returns P(W > k/n) + P(W = k/n)/2, where W = V + X - 1 is
// the queue before it is cut at 0.
func (l lattice) midway(g []float64, radius float64) []float64 {
	g = scaled(g, 1/radius, len(g))
	nodes := make([]float64, len(g))
	atom, before := 0.0, 1.0
	for k, v := range g {
		nodes[k] = (before + v) / 2
		if i := l.n - k; i >= 0 && i < len(l.weights) {
			atom += (before - v) * l.weights[i]
		}
		before = v
	}
	nodes[0] = g[0] + atom/2
	return nodes
}

// interpolate evaluates the cubic through the four nodes nearest to x.
func interpolate(nodes []float64, x float64) float64 {
	if k := int(x); float64(k) == x {
		return nodes[k]
	}
	first := min(max(int(x)-1, 0), len(nodes)-4)
	total := 0.0
	for i := range 4 {
		term := nodes[first+i]
		for j := range 4 {
			if i != j {
				term *= (x - float64(first+j)) / float64(i-j)
			}
		}
		total += term
	}
	return total
}

// decay returns the theta > 0 with E exp(theta (X - 1)) = 1, the exponential rate at which P(V > b)
// falls. It returns false if demand never exceeds the quota, and 0 if its mean is the quota or
// more.
func (l lattice) decay() (theta float64, ok bool) {
	last := len(l.weights) - 1
	for last > 0 && l.weights[last] <= 0 {
		last--
	}
	if last <= l.n {
		return 0, false
	}
	if l.drift <= 0 {
		return 0, true
	}
	high := 1.0
	for l.phi(high) < 1 {
		high *= 2
	}
	low := 0.0
	for range 30 {
		if middle := (low + high) / 2; l.phi(middle) < 1 {
			low = middle
		} else {
			high = middle
		}
	}
	return high, true
}

// phi returns E exp(rho (X - 1)).
func (l lattice) phi(rho float64) float64 {
	total, factor, power := 0.0, math.Exp(rho/float64(l.n)), 1.0
	for k, w := range l.weights {
		if k%64 == 0 {
			power = math.Exp(rho * (float64(k)/float64(l.n) - 1))
		}
		total += w * power
		power *= factor
	}
	return total
}
