package lindley

import (
	"fmt"
	"math"

	"pinfold.dev/pinfold/core/demand"
)

const (
	// aggregateSteps in one quota.
	aggregateSteps = 128
	// aggregateHorizon in quotas: rarer demand is left out.
	aggregateHorizon = 64
)

// Aggregate approximates the probability that m groups, each with quota 1/m of the
// machine and that burst, together submit more than the machine has, which is a missed
// deadline under the strict rule. There is no bound on its error: it takes groups to be
// independent, though they wait together when the machine is full, and lets each save up and
// fall behind as if it were alone. The package comment says how good it was found to be.
// Burst +Inf is allowed; else it is rounded to 1/128 of the quota.
func Aggregate(d demand.Distribution, m int, burst float64) (float64, error) {
	if m < 1 || m > 1<<12 {
		return 0, fmt.Errorf("%d groups: want 1 to %d", m, 1<<12)
	}
	if _, err := check(d, []float64{burst}, aggregateSteps); err != nil {
		return 0, err
	}
	within, quotas, err := nearly(d)
	if err != nil {
		return 0, err
	}
	one := lattice{groups: 1, n: aggregateSteps, weights: meanWeights(within, aggregateSteps, quotas+1)}
	if !math.IsInf(burst, 1) {
		if one.weights, err = one.alone(within, burst); err != nil {
			return 0, err
		}
	}
	one.drift, one.groups = 1-one.mean(), m
	return one.miss()
}

// nearly is demand without what is so rare that the approximation is no worse for it.
func nearly(d demand.Distribution) (demand.Distribution, int, error) {
	quotas, bounded := support(d, aggregateHorizon)
	if bounded {
		return d, quotas, nil
	}
	if lost := rareJumps(d, aggregateSteps, quotas); lost > 1e-3 {
		return nil, 0, fmt.Errorf("what lies beyond %d quotas matters: the aggregate %w; cut demand at some multiple of the quota", quotas, ErrUncertain)
	}
	return cut{Distribution: d, horizon: float64(quotas), beyond: tail(d, float64(quotas))}, quotas, nil
}

// alone turns the demand of one group into what it submits when nobody is in its way.
func (l lattice) alone(d demand.Distribution, burst float64) ([]float64, error) {
	l.drift = 1 - l.mean()
	theta, ok := l.decay()
	if !ok {
		return l.weights, nil
	}
	cap := int(math.Round(min(burst, largest) * aggregateSteps)) // which is too large
	size := powerOfTwo(l.n * max(int(2*digits/theta), len(l.weights)/l.n+2, 4*(cap/l.n+2)))
	if size > largest {
		return nil, fmt.Errorf("burst of %v of the quota at a mean demand of %v: the aggregate %w; take infinite burst, or lower demand", burst, d.Mean(), ErrUncertain)
	}
	radius := math.Exp(theta / 2 / float64(l.n))
	g, err := l.tails(radius, size)
	if err != nil {
		return nil, err
	}
	return submitted(d, l.midway(g, radius), l.n, cap), nil
}

// submitted returns the weights of min(X + backlog, 1 + tokens), of which V, with tails g,
// is cap - tokens + backlog. After and until are P(> s) and P(>= s) at the points; they
// differ at 1 quota, by who is throttled, and at the end, by who has saved up everything.
func submitted(d demand.Distribution, g []float64, n, cap int) []float64 {
	after, until := make([]float64, n+cap+1), make([]float64, n+cap+1)
	until[0] = 1
	for s := range after {
		x := tail(d, float64(s)/float64(n))
		if s >= n {
			after[s] = x * (1 - g[n+cap-s])
			until[s] = after[s]
		}
		if s > 0 && s <= n {
			until[s] = (1-g[cap])*x + behind(d, g[cap:], n, s)
		}
		if s < n {
			after[s] = (1-g[cap])*x + behind(d, g[cap:], n, s)
		}
	}
	after[n+cap] = 0
	weights := make([]float64, n+cap+1)
	before := 1.0
	for k := range weights {
		average := 0.0
		if k < n+cap {
			average = (after[k] + until[k+1]) / 2
		}
		weights[k] = before - average
		before = average
	}
	return weights
}

// behind is P(backlog > 0, X + backlog > s/n), where backlog has the tails g.
func behind(d demand.Distribution, g []float64, n, s int) float64 {
	total := g[s]
	for j := range s {
		between := (tail(d, float64(s-j)/float64(n)) + tail(d, float64(s-j-1)/float64(n))) / 2
		total += (g[j] - g[j+1]) * between
	}
	return total
}

// miss is P(W > 0), where W is what the machine has not done in time. What falls onto 0
// exactly is no miss, but half of what the lattice moves there is; that is drawn on
// from the two points after it.
func (l lattice) miss() (float64, error) {
	theta, ok := l.decay()
	if !ok {
		return 0, nil
	}
	size := powerOfTwo(l.n * max(len(l.weights)*l.groups/l.n+2, int(2*digits/theta)))
	if size > largest {
		return 0, fmt.Errorf("%d groups at a mean demand of %v: the aggregate %w", l.groups, 1-l.drift, ErrUncertain)
	}
	radius := math.Exp(theta / 2 / float64(l.n))
	g, err := l.tails(radius, size)
	if err != nil {
		return 0, err
	}
	g = scaled(g[:4], 1/radius, 4)
	atom := 2*(g[0]-g[1]) - (g[1] - g[2])
	return min(max(g[0]+atom/2, 0), 1), nil
}
