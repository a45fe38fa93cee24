package demand

import "math/rand/v2"

const (
	// mostClients are drawn one by one when they begin.
	mostClients = 10_000
	// mostChanges of all clients of a group in a period, on average: each takes time.
	mostChanges = 1e4
	// longestState is longer than anything that is simulated, in periods.
	longestState = 1e9
)

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
	if min(on, off) < 1e-3 || max(on, off) > longestState {
		return OnOff{}, invalid("times on and off of %v and %v periods; they must be a thousandth to %.0e", on, off, float64(longestState))
	}
	if clients < 1 || clients > mostClients {
		return OnOff{}, invalid("%d clients; there must be 1 to %d", clients, mostClients)
	}
	if changes := 2 * float64(clients) / (on + off); changes > mostChanges {
		return OnOff{}, invalid("%d clients would change %.3g times in a period, together; they may %.0e times: take fewer, or longer times",
			clients, changes, float64(mostChanges))
	}
	return OnOff{mean, on, off, clients}, nil
}

// Mean demand of all clients together.
func (o OnOff) Mean() float64 { return o.mean }

// Peak is the demand when all clients are on for the whole of a period.
func (o OnOff) Peak() float64 { return o.mean * (o.on + o.off) / o.on }

// Start returns clients of which each is on with the probability of the long run.
func (o OnOff) Start(r *rand.Rand) Source {
	s := &onOffSource{OnOff: o}
	for range o.clients {
		if r.Float64() < o.on/(o.on+o.off) {
			s.working++
		}
	}
	return s
}

type onOffSource struct {
	OnOff
	working int
}

// Next goes from one change of a client to the next. As exponential times have no memory, only
// the number of working clients counts, and the time to the next change of any is exponential,
// too.
func (s *onOffSource) Next(r *rand.Rand) float64 {
	worked, left := 0.0, 1.0
	for {
		stops, starts := float64(s.working)/s.on, float64(s.clients-s.working)/s.off
		lasts := r.ExpFloat64() / (stops + starts)
		worked += float64(s.working) * min(lasts, left)
		if left -= lasts; !(left > 0) {
			return worked / float64(s.clients) * s.Peak()
		}
		if starts == 0 || r.Float64()*(stops+starts) < stops {
			s.working--
		} else {
			s.working++
		}
	}
}
