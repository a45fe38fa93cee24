package interference

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"pinfold.dev/pinfold/core/demand"
)

// Group is a number of control groups alike, each with a demand of its own.
type Group struct {
	Count  int
	Quota  float64        // in any unit, the same as the capacity's; only the ratios count
	Burst  float64        // multiples of the quota, 0 or more; +Inf: tokens never run out
	Demand demand.Process // multiples of the quota
}

// Config says what to simulate.
type Config struct {
	Groups []Group
	// Capacity of the machine; 0 is the sum of the quotas.
	Capacity float64
	Rule     Rule
	// Periods to count, in all; rounded up to a multiple of Replicas. With a Precision, the most.
	Periods int64
	// Precision, when above 0, is the standard error of E[WCET] and of P(WCET = 1) at which
	// to stop.
	Precision float64
	// Random gives the nth source of random numbers; a source for each replica is asked
	// for once, from several goroutines. The same sources give the same result.
	Random func(n uint64) *rand.Rand
	// Workers is how many replicas run at a time, 1 or more. It does not change the result.
	Workers int
	// Progress, when not nil, is called from time to time, by one goroutine at a time; done stays 0
	// in the warm-up.
	Progress func(done, of int64)
}

// Replicas is the number of independent simulations whose spread is the standard error.
const Replicas = 64

// chunk is how many demands a replica draws between two looks at the context, in whole periods:
// single ones may take a tenth of a millisecond.
const chunk = 1 << 14

// ErrUnstable is wrapped when demand exceeds what is there, so that the backlog grows
// without end.
var ErrUnstable = errors.New("no stationary state")

// Check returns the error that Simulate would return at once: for what cannot be simulated,
// or has no stationary state.
func (c Config) Check() error {
	_, err := newPlan(c)
	return err
}

// Simulate runs the model until its periods or its precision are reached.
func Simulate(ctx context.Context, c Config) (*Result, error) {
	p, err := newPlan(c)
	if err != nil {
		return nil, err
	}
	s := &simulation{plan: p, replicas: make([]*replica, Replicas), workers: min(c.Workers, Replicas)}
	s.progress = newProgress(c.Progress, p.perReplica*Replicas)
	for i := range s.replicas {
		s.replicas[i] = &replica{plan: p, number: uint64(i), random: c.Random}
	}
	result, err := s.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("simulate %d groups: %w", p.groups(), err)
	}
	return result, nil
}

// simulation holds the replicas.
type simulation struct {
	*plan
	replicas []*replica
	workers  int
	progress *progress
}

// run doubles the periods until the precision is reached.
func (s *simulation) run(ctx context.Context) (*Result, error) {
	if err := s.warm(ctx); err != nil {
		return nil, err
	}
	for target := s.firstTarget(); ; target = min(2*target, s.perReplica) {
		last := target == s.perReplica
		batches, err := s.each(ctx, func(ctx context.Context, r *replica) (batch, error) {
			if err := r.upTo(ctx, target, s.progress); err != nil {
				return batch{}, err
			}
			return r.soFar(), nil
		})
		if err != nil {
			return nil, err
		}
		if last || summarise(s.plan, batches).reached(s.plan) {
			return s.finish(ctx)
		}
	}
}

func (s *simulation) finish(ctx context.Context) (*Result, error) {
	batches, err := s.each(ctx, func(ctx context.Context, r *replica) (batch, error) { return r.finish(ctx) })
	if err != nil {
		return nil, err
	}
	result := summarise(s.plan, batches)
	if err := result.checkMeans(s.plan); err != nil {
		return nil, err
	}
	result.warn(s.plan)
	return result, nil
}

// each does something with all replicas. A replica belongs to one worker at a time and
// depends on nothing else, so the batches are the same for any number of workers. The
// first failure ends the others.
func (s *simulation) each(ctx context.Context, do func(context.Context, *replica) (batch, error)) ([]batch, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	batches, next := make([]batch, len(s.replicas)), make(chan int, len(s.replicas))
	for i := range s.replicas {
		next <- i
	}
	close(next)
	var all sync.WaitGroup
	for range s.workers {
		all.Go(func() {
			for i := range next {
				var err error
				if batches[i], err = do(ctx, s.replicas[i]); err != nil {
					fail(err)
				}
			}
		})
	}
	all.Wait()
	return batches, context.Cause(ctx)
}

// progress adds up what the replicas did.
type progress struct {
	mu       sync.Mutex
	done, of int64
	tell     func(done, of int64)
}

func newProgress(tell func(done, of int64), of int64) *progress {
	return &progress{tell: tell, of: of}
}

func (p *progress) add(periods int64) {
	if p == nil || p.tell == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done += periods
	p.tell(p.done, p.of)
}
