package interference

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
)

// replica is one of the independent simulations.
type replica struct {
	plan    *plan
	number  uint64
	random  func(uint64) *rand.Rand
	engine  engine
	counts  batch
	missing int64 // the run of misses that is not over
}

// warm goes on until so many periods are over, which do not count, and returns what was drawn
// in them.
func (r *replica) warm(ctx context.Context, periods int64, p *progress) (batch, error) {
	if r.engine == nil {
		r.engine = r.plan.newEngine(r.random(r.number))
	}
	err := r.steps(ctx, periods-r.counts.periods, func(int64) { p.add(0) })
	return batch{periods: r.counts.periods, groups: r.engine.sums()}, err
}

// begin forgets the warm-up.
func (r *replica) begin() {
	r.engine.reset()
	r.counts, r.missing = batch{}, 0
}

// upTo goes on until so many periods are counted.
func (r *replica) upTo(ctx context.Context, periods int64, p *progress) error {
	return r.steps(ctx, periods-r.counts.periods, p.add)
}

// steps counts so many periods, and tells how many are done from time to time.
func (r *replica) steps(ctx context.Context, periods int64, done func(int64)) error {
	for periods > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(periods, r.plan.chunk())
		for range n {
			missed, err := r.engine.step()
			if err != nil {
				return err
			}
			r.count(missed)
		}
		r.counts.periods += n
		periods -= n
		done(n)
	}
	return nil
}

func (r *replica) count(missed bool) {
	switch {
	case missed:
		r.missing++
		r.counts.misses++
	case r.missing > 0:
		r.counts.run(r.missing, r.missing)
		r.missing = 0
	}
}

// soFar returns what was counted, as though the next period met its deadline.
func (r *replica) soFar() batch {
	b := r.counts
	b.histogram, b.groups = slices.Clone(b.histogram), r.engine.sums()
	b.run(r.missing, r.missing)
	return b
}

// finish returns what was counted, and for that goes on until the next deadline is met.
// The periods that takes are not counted, nor can any be afterwards.
func (r *replica) finish(ctx context.Context) (batch, error) {
	b := r.counts
	b.histogram, b.groups = slices.Clone(b.histogram), r.engine.sums()
	length, chunk := r.missing, r.plan.chunk()
	for missed := length > 0; missed; {
		if length%chunk == 0 && ctx.Err() != nil {
			return batch{}, ctx.Err()
		}
		if length > r.missing+b.periods+patience {
			return batch{}, fmt.Errorf("%w: deadlines have been missed for %d periods on end", ErrUnstable, length)
		}
		var err error
		if missed, err = r.engine.step(); err != nil {
			return batch{}, err
		}
		if missed {
			length++
		}
	}
	b.run(length, r.missing)
	return b, nil
}

// patience is how much longer than all periods counted a replica waits for a deadline to
// be met.
const patience = 1_000_000
