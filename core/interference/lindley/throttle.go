package lindley

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"pinfold.dev/pinfold/core/demand"
)

// Errors that callers branch on.
var (
	// ErrDemand is a mean that is no positive number, or that the CDF contradicts.
	ErrDemand = errors.New("not a demand")
	// ErrUnstable is a mean demand of the quota or more.
	ErrUnstable = errors.New("no stationary state")
	// ErrUncertain means that no figure can be vouched for: the tail is too heavy, or
	// there is too little room.
	ErrUncertain = errors.New("cannot be certified")
)

// DefaultSteps is the number of lattice points in one quota.
const DefaultSteps = 256

// largest transform, in points; memory is about 100 bytes for each.
const largest = 1 << 21

// Throttling is the probability that a period ends throttled, for one burst.
type Throttling struct {
	Burst       float64 `json:"burst"` // multiples of the quota, >= 0; +Inf is allowed
	Probability float64 `json:"probability"`
	// Lower <= Probability <= Upper, and the truth is between Lower and Upper.
	Lower float64 `json:"lower"`
	Upper float64 `json:"upper"`
}

// Width is how far the bounds are apart.
func (t Throttling) Width() float64 { return t.Upper - t.Lower }

// Solution is the answer for all bursts, in the order asked for.
type Solution struct {
	Throttling []Throttling
	Estimate   Method
	Bounds     Method
}

// Method says how figures were computed.
type Method struct {
	Name    string  // for people to read
	Steps   int     // lattice points in one quota
	Horizon int     // quotas that the lattice covers
	Contour float64 // ln|z| x Steps of the contour or tilt: > 0 outside the unit circle
}

// Solve returns the probability of being throttled in a period, for each burst, with
// bounds, on a lattice of that many steps (an even number; 0 is DefaultSteps; more for
// Latticed demand that they do not suit). Errors: ErrDemand, ErrUnstable, ErrUncertain.
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

// Exponential is Solve for exponential demand of mean u in closed form: sigma^(1+burst),
// where sigma = exp(-(1-sigma)/u).
func Exponential(u, burst float64) float64 {
	low, high := 0.0, 1-1e-15 // sigma = 1 solves the equation too, and is not meant
	for range 200 {
		sigma := (low + high) / 2
		if math.Exp(-(1-sigma)/u) > sigma {
			low = sigma
		} else {
			high = sigma
		}
	}
	return math.Pow((low+high)/2, 1+burst)
}

// prepare refuses what has no answer, and returns the lattice's steps and how far it has
// to reach, in quotas.
func prepare(d demand.Distribution, bursts []float64, steps int) (suited, far int, err error) {
	if suited, err = check(d, bursts, steps); err != nil {
		return 0, 0, err
	}
	far, err = reach(bursts)
	return suited, far, err
}

// check refuses what has no answer.
func check(d demand.Distribution, bursts []float64, steps int) (int, error) {
	u := d.Mean()
	switch {
	case math.IsNaN(u) || u <= 0:
		return 0, fmt.Errorf("mean demand is %v: %w; it has to be above 0", u, ErrDemand)
	case u >= 1:
		return 0, fmt.Errorf("mean demand is %v of the quota: %w; backlog grows by %v of the quota in each period, without end: raise the quota above the mean",
			u, ErrUnstable, u-1)
	case steps == 0:
		steps = DefaultSteps
	case steps < 4 || steps > 1<<16 || steps%2 != 0:
		return 0, fmt.Errorf("%d lattice steps: want an even number from 4 to %d", steps, 1<<16)
	}
	for _, b := range bursts {
		if math.IsNaN(b) || b < 0 {
			return 0, fmt.Errorf("burst of %v of the quota: want 0 or more", b)
		}
	}
	if left := tail(d, 0); !(left >= 0 && left <= 1) {
		return 0, fmt.Errorf("P(demand <= 0) is %v: %w", 1-left, ErrDemand)
	}
	return suited(d, steps), nil
}

// Latticed is demand that comes in multiples of 1/PerQuota.
type Latticed interface {
	demand.Distribution
	PerQuota() float64
}

// suited is the least even number from steps on such that each value of Latticed demand is
// on the lattice, where there is one that is not too large: with p/q per quota, in lowest terms,
// values are multiples of q/p, and the quota is p such parts.
func suited(d demand.Distribution, steps int) int {
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

// reach is the greatest finite burst, in quotas rounded up.
func reach(bursts []float64) (int, error) {
	greatest := 0.0
	for _, b := range bursts {
		if !math.IsInf(b, 1) {
			greatest = max(greatest, b)
		}
	}
	if greatest > largest/4/4 {
		return 0, fmt.Errorf("burst of %v of the quota: %w; ask for less than %d", greatest, ErrUncertain, largest/4/4)
	}
	return int(math.Ceil(greatest)), nil
}

// support is how far demand goes as the CDF tells it, in quotas, looked for up to limit:
// what it cannot tell from 1 counts as 1.
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

// powerOfTwo is the least power of two that is not below x.
func powerOfTwo(x int) int {
	p := 1
	for p < x {
		p *= 2
	}
	return p
}

// sum adds the small ones first.
func sum(values []float64) (s float64) {
	for _, v := range slices.Backward(values) {
		s += v
	}
	return s
}
