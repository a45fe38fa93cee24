package bandwidthtest

import (
	"fmt"
	"slices"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
)

// Server is a group that serves requests for CPU time within periods, on CPUs that it has to
// itself. Requests run to their end, in the order in which they came. The CPUs drain the bucket at
// equal rates; when it is empty, they wait for the end of the period. The kernel hands out CPU time
// in slices and accounts it at ticks, so that a CPU may use a few milliseconds more or less.
type Server struct {
	cpus      int
	pool      pool
	queue     []time.Duration // what is left of each request; the first ones run
	now, tick time.Duration   // tick is the end of the period
	held      time.Duration   // for which CPUs have been throttled since the last refill
	waited    time.Duration
	taken     int // CPUs that others use
	stats     Stats
}

// NewServer returns a server at time 0 that has been idle for some periods: its bucket is full and
// its timer has stopped. The first period ends at the phase, or after a whole period if that is 0.
func NewServer(cpus int, phase time.Duration, l bandwidth.Limits) (*Server, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("model a server: %w", err)
	}
	if phase == 0 {
		phase = l.Period
	}
	return &Server{cpus: cpus, pool: fullPool(l), tick: phase}, nil
}

// Limits returns the settings in force.
func (s *Server) Limits() bandwidth.Limits { return s.pool.limits }

// Stats returns the counters up to now. As in the kernel, throttled time is counted when throttling
// ends.
func (s *Server) Stats() Stats { return s.stats }

// Take takes CPUs away from the group, until the next call.
func (s *Server) Take(cpus int) { s.taken = cpus }

// Waited returns for how long a request of those that may run did not, because others had its CPU
// or because it was throttled (PSI, "some").
func (s *Server) Waited() time.Duration { return s.waited }

// Backlog returns the CPU time that was submitted and not yet used.
func (s *Server) Backlog() (sum time.Duration) {
	for _, left := range s.queue {
		sum += left
	}
	return sum
}

// Submit submits a request for CPU time (> 0) by one thread at the current time.
func (s *Server) Submit(work time.Duration) { s.queue = append(s.queue, work) }

// Write is [Controller.Write].
func (s *Server) Write(l bandwidth.Limits) error {
	if err := l.Validate(); err != nil {
		return fmt.Errorf("write bandwidth settings: %w", err)
	}
	s.release()
	s.pool.write(l, &s.stats)
	return nil
}

// Advance advances the time to until.
func (s *Server) Advance(until time.Duration) {
	for s.now < until {
		s.run(min(until, s.tick))
		if s.now == s.tick {
			throttled := s.throttled()
			s.release()
			s.pool.tick(throttled, &s.stats)
			s.tick += s.pool.limits.Period
		}
	}
}

// release counts the throttled time, which ends.
func (s *Server) release() {
	s.stats.ThrottledTime += s.held
	s.held = 0
}

func (s *Server) limited() bool { return s.pool.limits.Quota != bandwidth.Unlimited }

func (s *Server) throttled() bool { return s.limited() && s.pool.runtime == 0 && len(s.queue) > 0 }

// run lets time pass, at most until one of the requests ends or the bucket is empty.
func (s *Server) run(until time.Duration) {
	ready, passes := min(s.cpus, len(s.queue)), until-s.now
	running := s.queue[:max(0, min(ready, s.cpus-s.taken))]
	n := time.Duration(len(running))
	waits := s.throttled() || len(running) < ready
	switch {
	case s.throttled():
		s.held += time.Duration(ready) * passes
	case n == 0:
	default:
		passes = min(passes, slices.Min(running))
		used := n * passes
		if s.limited() {
			passes = min(passes, (s.pool.runtime+n-1)/n)
			used = s.pool.take(n * passes)
		}
		for i := range running {
			running[i] -= passes
		}
		running[n-1] += n*passes - used // less than a nanosecond of each
		s.stats.Usage += used
		s.queue = slices.DeleteFunc(s.queue, func(left time.Duration) bool { return left == 0 })
	}
	if waits {
		s.waited += passes
	}
	s.now += passes
}
