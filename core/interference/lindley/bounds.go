package lindley

import (
	"fmt"
	"math"

	"pinfold.dev/pinfold/core/demand"
)

// worthless is the width at which bounds say nothing.
const worthless = .5

// Bounds returns lower and upper bounds of the probability that a period is throttled for each
// burst. Probability is their midpoint. They hold for any demand: it is rounded down and up to the
// lattice, and both queues are solved and proven. Their width is about proportional to 1/steps, for
// [Unimodal] demand to 1/steps^2. If the CDF is known at the points only, no narrower bounds hold.
// If all demand is on the lattice, the width is from about 1e-12 to 1e-9. Values that the CDF
// cannot distinguish from 1 count as 1. Errors are those of [Solve].
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

// integrationError is the relative error of the mean of meanWeights, for atoms smaller than kink.
const integrationError = kink

// unseen returns the part of the mean that the CDF does not show: a tail can be so heavy that much
// of the mean comes from probabilities that rounding loses. The mean is the integral of P(X > x).
// What the integral lacks comes from beyond the horizon T too, and counts as E[X; X > T] in
// rareJumps. A lack within the integration error counts as 0: the sums of rareJumps are
// overestimates by more than that.
func unseen(d demand.Distribution, steps, horizon int) float64 {
	l := newLattice(meanWeights(d, steps, horizon), steps)
	beyond := addTail(float64(horizon)*max(1-sum(l.weights), 0), d, float64(horizon), d.Mean())
	if lacking := d.Mean() - l.mean() - beyond; lacking > integrationError*d.Mean() {
		return lacking
	}
	return 0
}

// addTail adds the integral of P(X > x) from x on to total, until it is at least enough. It sums
// over intervals that grow by 1%, with the value at their beginning, so it overestimates.
func addTail(total float64, d demand.Distribution, x, enough float64) float64 {
	for p := tail(d, x); p > 0 && total < enough; p = tail(d, x) {
		total += p * x / 100
		x += x / 100
	}
	return total
}

func tooHeavy() error {
	return fmt.Errorf("demand has too heavy a tail: the figures %w; cut it at some multiple of the quota", ErrUncertain)
}

// bracket returns a function that brackets P(V > b) for demand up to the horizon. It returns false
// if there is no proof on this lattice, as when mean demand rounded up is the quota or more.
func bracket(d demand.Distribution, steps, quotas, far int) (func(b float64) (low, high float64), Method, bool) {
	if u, ok := d.(Unimodal); ok {
		if p, ok := prove(d, u.Mode(), steps, quotas, far); ok {
			return p.at, Method{Name: "residual certificate", Steps: steps, Horizon: p.horizon}, true
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
	return both, Method{Name: "demand rounded down and up", Steps: steps, Horizon: above.horizon}, ok
}

// farEnough chooses a horizon in quotas such that demand beyond it adds less to the bounds than the
// lattice does, or such that the lattice is full. It returns how much that demand adds at most.
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

// rareJumps bounds how much demand beyond the horizon T adds to P(V > b), for every b. Demand cut
// at T gives a queue V1 <= V. They differ only after a demand beyond T, until V1 has caught up. In
// that time V is never cut at 0, so by Wald's identity it lasts at most (E V1 + E[X | X > T]) / (1
// - u) periods on average, and
//
//	P(V > b) <= P(V1 > b) + (P(X > T) E V1 + E[X; X > T]) / (1 - u),
//
// with Kingman's bound of the mean queue (J. F. C. Kingman, Some inequalities for the queue GI/G/1,
// 1962): E V1 <= E X1^2 / (2 (1 - u)).
func rareJumps(d demand.Distribution, steps, horizon int) float64 {
	square := 0.0
	for k, w := range roundUp(d, steps, horizon).weights {
		x := float64(k) / float64(steps)
		square += w * x * x
	}
	idle := 1 - d.Mean()
	x := float64(horizon)
	return addTail(tail(d, x)*(square/(2*idle)+x), d, x, 1) / idle
}
