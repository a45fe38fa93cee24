package demand

import "math/rand/v2"

// OnOff is a number of clients, each of which works at a constant rate while it is on
// and not while it is off. Both last exponentially distributed times, and change
// within periods too.
type OnOff struct {
	mean, on, off float64
	clients       int
}

// NewOnOff returns clients that are on and off for the given mean times, in periods, and
// together have the mean demand.
func NewOnOff(mean, on, off float64, clients int) (OnOff, error) {
	if err := checkPositive("the mean", mean); err != nil {
		return OnOff{}, err
	}
	if err := checkPositive("the mean time on, in periods,", on); err != nil {
		return OnOff{}, err
	}
	if err := checkPositive("the mean time off, in periods,", off); err != nil {
		return OnOff{}, err
	}
	// Shorter than this, a period is all average, and takes long to draw.
	if min(on, off) < 1e-3 {
		return OnOff{}, invalid("times on and off of %v and %v periods; they must be a thousandth or more", on, off)
	}
	if clients < 1 {
		return OnOff{}, invalid("%d clients; there must be 1 or more", clients)
	}
	return OnOff{mean, on, off, clients}, nil
}

// Mean demand of all clients together.
func (o OnOff) Mean() float64 { return o.mean }

// Peak is the demand when all clients are on for the whole of a period.
func (o OnOff) Peak() float64 { return o.mean * (o.on + o.off) / o.on }

// Start returns clients of which each is on with the probability of the long run.
func (o OnOff) Start(r *rand.Rand) Source {
	s := &crowd{OnOff: o, working: make([]bool, o.clients)}
	for i := range s.working {
		s.working[i] = r.Float64() < o.on/(o.on+o.off)
	}
	return s
}

type crowd struct {
	OnOff
	working []bool
}

// Next follows each client through the period. As exponential times have no memory, what
// is left of a state at the beginning of a period is drawn anew.
func (s *crowd) Next(r *rand.Rand) float64 {
	worked := 0.0
	for i := range s.working {
		for left := 1.0; left > 0; {
			mean := s.off
			if s.working[i] {
				mean = s.on
			}
			lasts := mean * r.ExpFloat64()
			if s.working[i] {
				worked += min(lasts, left)
			}
			if lasts < left {
				s.working[i] = !s.working[i]
			}
			left -= lasts
		}
	}
	return worked / float64(s.clients) * s.Peak()
}
