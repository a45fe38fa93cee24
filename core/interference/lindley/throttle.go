package lindley

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"pinfold.dev/pinfold/core/demand"
)

// Errors that callers branch on.
var (
	// ErrDemand means that the mean is not a positive number or contradicts the CDF, or that the
	// CDF at 0 is negative or NaN.
	ErrDemand = errors.New("not a demand")
	// ErrUnstable means that the mean demand is the quota or more.
	ErrUnstable = errors.New("no stationary state")
	// ErrUncertain means that no result can be guaranteed, because the tail is too heavy or the
	// lattice too small.
	ErrUncertain = errors.New("cannot be certified")
)

// DefaultSteps is the number of lattice points in one quota.
const DefaultSteps = 256

// largest is the maximum number of points of a Fourier transform. A point takes about 100 bytes.
const largest = 1 << 21

// Throttling is the probability that a period ends throttled, for one burst.
type Throttling struct {
	Burst       float64 `json:"-"` // multiples of the quota, >= 0; +Inf is allowed
	Probability float64 `json:"probability"`
	// Lower <= Probability <= Upper, and the exact value is between Lower and Upper.
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

// Solution is the result for all bursts, in the order in which they were given.
type Solution struct {
	Throttling []Throttling
	Estimate   Method
	Bounds     Method
}

// Method describes how a result was computed.
type Method struct {
	Name    string // for people
	Steps   int    // lattice points per quota
	Horizon int    // the length of the lattice in quotas
}

func (m Method) String() string {
	return fmt.Sprintf("%s, %d steps in a quota, up to %d quotas", m.Name, m.Steps, m.Horizon)
}

// Solve returns the probability that a period is throttled for each burst, with bounds. steps is
// the number of lattice points per quota: an even number, or 0 for DefaultSteps. [Latticed] demand
// raises it to the next number that suits. Except for an invalid burst or number of steps, the
// error wraps ErrDemand, ErrUnstable or ErrUncertain.
func Solve(d demand.Distribution, bursts []float64, steps int) (Solution, error) {
	probabilities, estimate, err := Estimate(d, bursts, steps)
	if err != nil {
		return Solution{}, err
	}
	throttling, bounds, err := Bounds(d, bursts, steps)
	if err != nil {
		return Solution{}, err
	}
	for i, p := range probabilities {
		throttling[i].Probability = min(max(p, throttling[i].Lower), throttling[i].Upper)
	}
	return Solution{Throttling: throttling, Estimate: estimate, Bounds: bounds}, nil
}

// prepare rejects invalid arguments. It returns the number of lattice points per quota, and the
// largest finite burst in quotas, rounded up.
func prepare(d demand.Distribution, bursts []float64, steps int) (points, farthest int, err error) {
	u := d.Mean()
	switch {
	case math.IsNaN(u) || u <= 0:
		return 0, 0, fmt.Errorf("mean demand is %v: %w; it has to be above 0", u, ErrDemand)
	case u >= 1:
		return 0, 0, fmt.Errorf("mean demand is %v of the quota: %w; backlog grows by %v of the quota in each period, without end: raise the quota above the mean",
			u, ErrUnstable, u-1)
	case steps == 0:
		steps = DefaultSteps
	case steps < 4 || steps > 1<<16 || steps%2 != 0:
		return 0, 0, fmt.Errorf("%d lattice steps: want an even number from 4 to %d", steps, 1<<16)
	}
	greatest := 0.0
	for _, b := range bursts {
		if math.IsNaN(b) || b < 0 {
			return 0, 0, fmt.Errorf("burst of %v of the quota: want 0 or more", b)
		}
		if !math.IsInf(b, 1) {
			greatest = max(greatest, b)
		}
	}
	if above := tail(d, 0); !(above >= 0 && above <= 1) {
		return 0, 0, fmt.Errorf("P(demand <= 0) is %v: %w", 1-above, ErrDemand)
	}
	if greatest > largest/4/4 {
		return 0, 0, fmt.Errorf("burst of %v of the quota: %w; ask for less than %d", greatest, ErrUncertain, largest/4/4)
	}
	return suitedSteps(d, steps), int(math.Ceil(greatest)), nil
}

// Latticed is demand that is always a multiple of 1/PerQuota.
type Latticed interface {
	demand.Distribution
	PerQuota() float64
}

// suitedSteps returns the smallest even number from steps on for which every value of Latticed
// demand is a lattice point, or steps if that would be too many. With PerQuota = p/q in lowest
// terms, values are multiples of q/p, so p points per quota suit.
func suitedSteps(d demand.Distribution, steps int) int {
	l, ok := d.(Latticed)
	if !ok {
		return steps
	}
	for q := 1.0; q <= 64; q++ {
		if p := q * l.PerQuota(); p == math.Trunc(p) && p >= 1 && p <= 1<<12 {
			multiple := 2 * int(p)
			return (steps + multiple - 1) / multiple * multiple
		}
	}
	return steps
}

// support returns an upper bound of demand in quotas: where the CDF reaches 1. It returns false if
// the CDF does not reach 1 up to limit.
func support(d demand.Distribution, limit int) (quotas int, ok bool) {
	quotas = 1
	for tail(d, float64(quotas)) > 0 {
		if quotas >= limit {
			return limit, false
		}
		quotas += (quotas + 7) / 8
	}
	return quotas, true
}

// powerOfTwo returns the smallest power of two that is at least x, for x >= 1.
func powerOfTwo(x int) int { return 1 << bits.Len(uint(x-1)) }

// sum adds from the back, where weights of a tail are smallest, to lose the least in rounding.
func sum(values []float64) (s float64) {
	for _, v := range slices.Backward(values) {
		s += v
	}
	return s
}
