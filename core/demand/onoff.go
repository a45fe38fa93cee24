package demand

import (
	"cmp"
	"math/rand/v2"
)

const (
	// maxClients is limited because Start draws the state of each client.
	maxClients = 10_000
	// maxChanges is the average number of changes in a period; each is simulated.
	maxChanges = 1e4
	// longestState is longer than any simulation, in periods.
	longestState = 1e9
)

// OnOff is a number of clients, each of which works at a constant rate while it is on. Times on and
// off are exponentially distributed and can end within a period.
type OnOff struct {
	known
	on, off float64
	clients int
}

// NewOnOff returns clients with the given mean times on and off, in periods, and the given mean
// demand of all together.
func NewOnOff(mean, on, off float64, clients int) (OnOff, error) {
	err := cmp.Or(
		checkPositive("the mean", mean),
		checkPositive("the mean time on, in periods,", on),
		checkPositive("the mean time off, in periods,", off),
	)
	if err != nil {
		return OnOff{}, err
	}
	// With shorter times each period would be close to the average, and slow to draw.
	if min(on, off) < 1e-3 || max(on, off) > longestState {
		return OnOff{}, invalid("times on and off of %v and %v periods; they must be a thousandth to %.0e", on, off, float64(longestState))
	}
	if clients < 1 || clients > maxClients {
		return OnOff{}, invalid("%d clients; there must be 1 to %d", clients, maxClients)
	}
	if changes := 2 * float64(clients) / (on + off); changes > maxChanges {
		return OnOff{}, invalid("%d clients would change %.3g times in a period, together; they may %.0e times: take fewer, or longer times",
			clients, changes, float64(maxChanges))
	}
	return OnOff{known{mean}, on, off, clients}, nil
}

// Peak is the demand when all clients are on for the whole of a period.
func (o OnOff) Peak() float64 { return o.mean * (o.on + o.off) / o.on }

// Start returns clients that are on with the stationary probability.
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

// Next simulates one change of a client after the other. Because exponential times are memoryless,
// only the number of working clients matters, and the time to the next change is exponential.
func (s *onOffSource) Next(r *rand.Rand) float64 {
	worked, remaining := 0.0, 1.0 // client periods; rest of the period
	for {
		stops, starts := float64(s.working)/s.on, float64(s.clients-s.working)/s.off
		lasts := r.ExpFloat64() / (stops + starts)
		worked += float64(s.working) * min(lasts, remaining)
		if remaining -= lasts; !(remaining > 0) {
			return worked / float64(s.clients) * s.Peak()
		}
		if starts == 0 || r.Float64()*(stops+starts) < stops {
			s.working--
		} else {
			s.working++
		}
	}
}
