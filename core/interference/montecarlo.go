package interference

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"pinfold.dev/pinfold/core/demand"
)

// Group is a number of identical cgroups, with independent demands.
type Group struct {
	Count  int
	Quota  float64        // in any unit, the same as the capacity's: only ratios matter
	Burst  float64        // multiples of the quota, 0 or more; +Inf: tokens never run out
	Demand demand.Process // multiples of the quota, of a period or of a slot
}

// Config describes a simulation.
type Config struct {
	Groups []Group
	// Capacity of the machine; 0 means the sum of the quotas.
	Capacity float64
	Rule     Rule
	// Slots, with Apart, is into how many slots a period is divided; demands are then those of a slot. If it is 0,
	// there are ten, and the demand of each period comes in one of them, at random for each group.
	Slots int
	// Busy is the share of the capacity from which a period counts as busy, with Apart; 0: none does.
	Busy float64
	// Periods to count over all replicas, rounded up to a multiple of Replicas. With a Precision,
	// the maximum.
	Periods int64
	// Precision, if above 0, is the standard error of E[WCET] and P(WCET = 1) at which the
	// simulation stops.
	Precision float64
	// Random returns the nth random source. It is called once per replica, from several goroutines.
	// The same sources give the same result.
	Random func(n uint64) *rand.Rand
	// Workers is the number of replicas that run at a time, 1 or more. It does not change the
	// result.
	Workers int
	// Progress, if not nil, is called now and then, by one goroutine at a time, with the number of
	// periods counted so far; done is 0 during the warm-up.
	Progress func(done, of int64)
}

// Replicas is the number of independent simulations. They are the batches of the method of batch
// means: their spread gives standard errors however the periods depend on each other.
const Replicas = 64

// chunk is how many demands a replica draws between two checks of the context, in whole periods. A
// single draw may take a tenth of a millisecond.
const chunk = 1 << 14

// ErrUnstable is wrapped when mean demand exceeds the quota or the capacity, so that backlog grows
// without bound.
var ErrUnstable = errors.New("no stationary state")

// Check returns the error that Simulate would return immediately: the configuration is invalid or
// has no stationary state.
func (c Config) Check() error {
	_, err := newPlan(c)
	return err
}

// Simulate runs the model until it has counted enough periods or reached the precision.
func Simulate(ctx context.Context, c Config) (*Result, error) {
	p, err := newPlan(c)
	if err != nil {
		return nil, err
	}
	s := &simulation{plan: p, replicas: make([]*replica, Replicas), workers: min(c.Workers, Replicas)}
	var mu sync.Mutex
	done := int64(0)
	s.progress = func(periods int64) {
		if c.Progress != nil {
			mu.Lock()
			defer mu.Unlock()
			done += periods
			c.Progress(done, p.perReplica*Replicas)
		}
	}
	for i := range s.replicas {
		s.replicas[i] = &replica{plan: p, number: uint64(i), random: c.Random}
	}
	result, err := s.run(ctx)
	if err != nil {
		return nil, fmt.Errorf("simulate %d groups: %w", p.groups, err)
	}
	return result, nil
}

type simulation struct {
	*plan
	replicas []*replica
	workers  int
	progress func(periods int64)
}

// run doubles the number of periods until the precision is reached.
func (s *simulation) run(ctx context.Context) (*Result, error) {
	if err := s.warm(ctx); err != nil {
		return nil, err
	}
	target := s.perReplica
	if s.precision > 0 {
		target = min(target, 1000)
	}
	for ; ; target = min(2*target, s.perReplica) {
		last := target == s.perReplica
		batches, err := s.each(ctx, func(ctx context.Context, r *replica) (batch, error) {
			if err := r.steps(ctx, target-r.counts.periods, s.progress); err != nil {
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

// each calls do for all replicas. A replica belongs to one worker at a time and depends on nothing
// else, so the batches are the same for any number of workers. The first error ends the others.
func (s *simulation) each(ctx context.Context, do func(context.Context, *replica) (batch, error)) ([]batch, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	batches := make([]batch, len(s.replicas))
	var next atomic.Int64
	var all sync.WaitGroup
	for range s.workers {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(s.replicas)); i = next.Add(1) - 1 {
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

// relaxations is the length of a warm-up in relaxation times of the backlog.
const relaxations = 4

// longestWarmUp is in periods of a replica: a warm-up is no longer than what is counted.
func (p *plan) longestWarmUp() int64 { return max(minWarmUp, p.perReplica) }

// warm runs the replicas until they have forgotten that they started idle. How long that takes
// depends on the load and on the variance and correlation of the demand, which only the draws
// reveal.
func (s *simulation) warm(ctx context.Context) error {
	for {
		batches, err := s.each(ctx, func(ctx context.Context, r *replica) (batch, error) {
			return r.warm(ctx, s.warmUp, func(int64) { s.progress(0) })
		})
		if err != nil {
			return err
		}
		s.wantedWarmUp = max(s.wantedWarmUp, s.settled(batches))
		longest := min(s.wantedWarmUp, s.longestWarmUp())
		if s.warmUp >= longest {
			break
		}
		s.warmUp = min(max(2*s.warmUp, s.wantedWarmUp), s.longestWarmUp())
	}
	for _, r := range s.replicas {
		r.begin()
	}
	return nil
}

// settled returns after how many periods backlog has been forgotten, of the order of 1/(1-load)^2
// and longer for correlated or very uneven demand: the backlog of each group that lacked tokens,
// and that of all groups for lack of capacity. The variance per period is that of sums over whole
// batches, which includes correlation shorter than a batch; with longer correlation the estimate
// grows with the batches.
func (p *plan) settled(batches []batch) int64 {
	longest, wanted := 0.0, 0.0
	for i, k := range p.kinds {
		mean := estimate(batches, func(b batch) float64 { return b.groups[i].demand / float64(b.periods) / float64(k.quota) })
		longest = max(longest, relaxation(mean, batches, 1-k.mean)/float64(k.count))
		wanted += k.mean * float64(k.quota) * float64(k.count)
	}
	whole := estimate(batches, func(b batch) float64 {
		total := 0.0
		for _, g := range b.groups {
			total += g.demand
		}
		return total / float64(b.periods)
	})
	longest = max(longest, relaxation(whole, batches, float64(p.capacity)-wanted))
	return int64(min(relaxations*longest, maxWarmUp))
}

// relaxation returns the time constant, in periods, with which a random walk with a floor forgets
// its start, by its diffusion approximation: 2 variance/drift^2.
func relaxation(mean Estimate, batches []batch, drift float64) float64 {
	spread := mean.StandardError * mean.StandardError * float64(len(batches))
	return 2 * spread * float64(batches[0].periods) / (drift * drift)
}
