package verdict

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"pinfold.dev/pinfold/core/quantity"
)

// Measured is what agents have counted of single enforcement periods of a container, or of all replicas
// ([pinfold.dev/pinfold/core/needed]).
type Measured struct {
	Limits Counts // the limit in CPUs that a period needed, with a burst of the same size
	CPUs   Counts // that it wanted
}

// Counts are the periods of the buckets of a histogram, by their upper bounds.
type Counts map[float64]float64

// Add adds what others have counted.
func (c Counts) Add(more Counts) {
	for most, n := range more {
		c[most] += n
	}
}

// periods returns the number of periods.
func (c Counts) periods() (n float64) {
	for _, one := range c {
		n += one
	}
	return n
}

// share returns the share of the periods whose value is above x, at most: those of the bucket in which x is
// count.
func (c Counts) share(x float64) float64 {
	const rounding = 1e-9
	n := 0.
	for most, one := range c {
		if most > x*(1+rounding) {
			n += one
		}
	}
	return n / max(1, c.periods())
}

// above implements [demander].
func (c Counts) above(_, cpus float64) float64 { return c.share(cpus) }

// least returns the smallest bound that at most a share of the values is above.
func (c Counts) least(share float64) (least float64) {
	for _, bound := range slices.Backward(slices.Sorted(maps.Keys(c))) {
		if c.share(bound) > share {
			break
		}
		least = bound
	}
	return least
}

// leastLimit is the smallest limit that is advised, in CPUs.
const leastLimit = .01

// measure sets the verdict by what was measured. If its limit was full for some time, it may want more than
// that, and burst is set if it has a burst already.
func (v *Verdict) measure(m *Measured, share, goal float64, full, burst bool) {
	shown := quantity.Share(share).String()
	v.Measured = true
	if m.CPUs.periods() >= settled*m.Limits.periods() { // else nothing is known of how much others would wait
		v.demands = []demander{m.CPUs}
	}
	v.High = max(leastLimit, m.Limits.least(goal))
	v.Low = v.High / math.Exp2(1./8)
	v.Advised = math.Ceil(100*v.High) / 100
	present := m.Limits.share(v.Limit)
	v.Reason = fmt.Sprintf("it was throttled in %s of the periods", shown)
	predict := func(limit float64) {
		predicted := m.Limits.share(limit)
		v.Predicted = &predicted
	}
	switch {
	case share <= goal && v.Advised > worthSaving*v.Limit:
		v.Action, v.Advised = Fine, 0
	case share <= goal:
		v.Action = Lower
		v.Reason += fmt.Sprintf("; with a burst of 100%%, a limit of %s throttles at most %s, as its agents have measured", quantity.CPUs(v.Advised), quantity.Share(goal))
		predict(v.Advised)
	case present <= goal && burst:
		v.Action, v.Advised, v.Low, v.High = Raise, 0, v.Limit, 0
		v.Reason += ", and has a burst: it needs a larger one, or a larger limit, and how much larger is not known"
	case present <= goal:
		v.Action, v.Advised = Burst, v.Limit
		v.Reason += fmt.Sprintf(", and uses %s of its limit: a burst of 100%% ends that, as its agents have measured", quantity.Share(*v.CPUs/v.Limit))
		predict(v.Limit)
	default:
		v.Action = Raise
		least := ""
		if full {
			least = "at least "
		}
		v.Reason += fmt.Sprintf(", and with a burst of 100%% it would be in %s, as its agents have measured: it needs a limit of %s%s as well", quantity.Share(present), least, quantity.CPUs(v.Advised))
		predict(v.Advised)
	}
}
