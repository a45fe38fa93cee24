package lindley

import (
	"fmt"
	"math"

	"pinfold.dev/pinfold/core/demand"
)

// worthless is the width of bounds at which they say nothing.
const worthless = .5

// Bounds returns lower and upper bounds of the probability of being throttled for each
// burst, with their midpoint as the probability. They hold for any demand; their width
// is about proportional to 1/steps, and to 1/steps^2 for Unimodal demand.
func Bounds(d demand.Distribution, bursts []float64, steps int) ([]Throttling, Method, error) {
	steps, far, err := prepare(d, bursts, steps)
	if err != nil {
		return nil, Method{}, err
	}
	quotas, jumps := farEnough(d, steps)
	jumps += unseen(d, steps, quotas) / (1 - d.Mean())
	if jumps >= worthless {
		return nil, Method{}, tooHeavy()
	}
	find, method, ok := bracket(d, steps, quotas, far)
	if !ok {
		return nil, Method{}, fmt.Errorf("mean demand %v is too near the quota for %d steps: the figures %w; try more steps", d.Mean(), steps, ErrUncertain)
	}
	out := make([]Throttling, len(bursts))
	for i, b := range bursts {
		out[i].Burst = b
		if !math.IsInf(b, 1) {
			low, high := find(b)
			out[i].Lower, out[i].Upper = low, min(high+jumps, 1)
		}
		out[i].Probability = (out[i].Lower + out[i].Upper) / 2
	}
	return out, method, nil
}

// integrationError of meanWeights for atoms of less than kink, relative to the mean.
const integrationError = kink

// unseen is the part of the mean that the CDF does not show: a tail may be so heavy that much
// of the mean lies where its probability is lost in rounding. The mean is the integral of
// P(X > x); what that lacks lies beyond the horizon, too, and counts as E[X; X > T] in
// rareJumps. What is less than the error of integration is none: tails that lack so little
// are made larger by as much in the sums of rareJumps.
func unseen(d demand.Distribution, steps, horizon int) float64 {
	l := lattice{weights: meanWeights(d, steps, horizon), n: steps}
	beyond := float64(horizon) * max(1-sum(l.weights), 0)
	x := float64(horizon)
	for left := tail(d, x); left > 0 && beyond < d.Mean(); left = tail(d, x) {
		beyond += left * x / 100
		x += x / 100
	}
	if lacking := d.Mean() - l.mean() - beyond; lacking > integrationError*d.Mean() {
		return lacking
	}
	return 0
}

func tooHeavy() error {
	return fmt.Errorf("demand has too heavy a tail: the figures %w; cut it at some multiple of the quota", ErrUncertain)
}

// bracket returns a function that brackets P(V > b), of demand within the horizon.
func bracket(d demand.Distribution, steps, quotas, far int) (func(b float64) (low, high float64), Method, bool) {
	if u, ok := d.(Unimodal); ok {
		if p, ok := prove(d, u.Mode(), steps, quotas, far); ok {
			return p.at, Method{Name: "residual certificate", Steps: steps, Horizon: p.horizon, Contour: p.contour}, true
		}
	}
	above, ok := roundUp(d, steps, quotas).certify(quotas, far)
	if !ok {
		return nil, Method{}, false
	}
	below, ok := roundDown(d, steps, quotas).certify(quotas, far)
	both := func(b float64) (float64, float64) {
		low, _ := below.at(b)
		_, high := above.at(b)
		return low, high
	}
	return both, Method{Name: "demand rounded down and up", Steps: steps, Horizon: above.horizon, Contour: above.contour}, ok
}

// farEnough chooses how far to look at demand, in quotas, such that what lies beyond adds
// less than the lattice does, and says how much that may be.
func farEnough(d demand.Distribution, steps int) (quotas int, jumps float64) {
	limit := largest / 8 / steps
	quotas, bounded := support(d, min(lightSupport, limit))
	if bounded {
		return quotas, 0
	}
	for {
		jumps = rareJumps(d, steps, quotas)
		if jumps < .1/float64(steps*steps) || 2*quotas > limit {
			return quotas, jumps
		}
		quotas *= 2
	}
}

// rareJumps bounds how much demand beyond the horizon T adds to P(V > b), for every b: the
// package comment derives (P(X > T) E V1 + E[X; X > T]) / (1 - u), with Kingman's
// E V1 <= E X1^2 / (2 (1 - u)). The integral of P(X > x) beyond T is summed over
// intervals that grow by a hundredth, with the value at their beginning.
func rareJumps(d demand.Distribution, steps, horizon int) float64 {
	square := 0.0
	for k, w := range roundUp(d, steps, horizon).weights {
		x := float64(k) / float64(steps)
		square += w * x * x
	}
	idle := 1 - d.Mean()
	x := float64(horizon)
	beyond := tail(d, x)
	total := beyond * (square/(2*idle) + x)
	for beyond > 0 && total < 1 {
		total += beyond * x / 100
		x += x / 100
		beyond = tail(d, x)
	}
	return total / idle
}
