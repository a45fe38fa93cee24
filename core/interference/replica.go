package interference

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
)

// replica is one of the independent simulations.
type replica struct {
	plan   *plan
	number uint64
	random func(uint64) *rand.Rand
	engine engine
	counts batch
	streak int64 // of misses up to now
}

// warm continues the warm-up to the given number of periods, which are not counted, and returns
// what was drawn in them.
func (r *replica) warm(ctx context.Context, periods int64, done func(int64)) (batch, error) {
	if r.engine == nil {
		r.engine = r.plan.newEngine(r.random(r.number))
	}
	err := r.steps(ctx, periods-r.counts.periods, done)
	return batch{periods: r.counts.periods, groups: r.engine.sums()}, err
}

// begin ends the warm-up.
func (r *replica) begin() {
	r.engine.reset()
	r.counts, r.streak = batch{}, 0
}

// steps simulates a number of periods, and reports progress to done.
func (r *replica) steps(ctx context.Context, periods int64, done func(int64)) error {
	for periods > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(periods, r.plan.chunk())
		for range n {
			o, err := r.engine.step()
			if err != nil {
				return err
			}
			r.count(o.missed)
			if o.full {
				r.counts.full++
			}
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
		r.streak++
		r.counts.misses++
	case r.streak > 0:
		r.counts.run(r.streak, r.streak)
		r.streak = 0
	}
}

// soFar returns what was counted, as if the next period met its deadline.
func (r *replica) soFar() batch {
	b := r.counts
	b.histogram, b.groups = slices.Clone(b.histogram), r.engine.sums()
	b.run(r.streak, r.streak)
	return b
}

// finish returns what was counted. If that ends with a miss, it simulates on to the next period
// that meets its deadline. These periods are not counted, and nothing can be counted afterwards.
func (r *replica) finish(ctx context.Context) (batch, error) {
	b := r.counts
	b.histogram, b.groups = slices.Clone(b.histogram), r.engine.sums()
	length, chunk := r.streak, r.plan.chunk()
	for missed := length > 0; missed; {
		if length%chunk == 0 && ctx.Err() != nil {
			return batch{}, ctx.Err()
		}
		if length > r.streak+b.periods+patience {
			return batch{}, fmt.Errorf("%w: deadlines have been missed for %d periods on end", ErrUnstable, length)
		}
		o, err := r.engine.step()
		if err != nil {
			return batch{}, err
		}
		if missed = o.missed; missed {
			length++
		}
	}
	b.run(length, r.streak)
	return b, nil
}

// patience is the number of periods that a replica simulates beyond those it counted while it waits
// for a deadline that is met.
const patience = 1_000_000
