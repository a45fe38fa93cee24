package interference

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
	"pinfold.dev/pinfold/test/race"
)

// TestWarmUpOfMemory has clients that are on for some periods and then off for nine times as long,
// with enough capacity for all. A fluid that arrives at five times the quota for a tenth of the
// time fills the quota half of the time, and there is backlog whenever it arrives. So the throttle
// ratio is a half, except for the periods in which a client switches. Without the backlog of the
// warm-up it would be less.
func TestWarmUpOfMemory(t *testing.T) {
	need.This(t, "a long time")
	race.SkipLong(t)
	for _, c := range []struct {
		on     float64
		warned bool
	}{{3, false}, {100, false}, {1000, true}} {
		clients := must.Get(demand.NewOnOff(0.5, c.on, 9*c.on, 1))(t)
		r := simulate(t, Config{Groups: oneKind(20, 0, clients), Capacity: 100, Periods: 1_200_000})
		got := r.Groups[0].ThrottleRatio
		if off := math.Abs(got.Value - 0.5); !c.warned && off > 4*got.StandardError+0.1/c.on {
			t.Errorf("on for %v periods: %.4f (standard error %.2g), want 0.5", c.on, got.Value, got.StandardError)
		}
		if warned := strings.Contains(strings.Join(r.Warnings, "\n"), "periods of warm-up a replica are too few"); warned != c.warned {
			t.Errorf("on for %v periods: %q, want a warning: %v", c.on, r.Warnings, c.warned)
		}
	}
}

// TestOverload: if quotas do not fit together, the published rule does not make an overloaded
// machine look idle.
func TestOverload(t *testing.T) {
	late := map[Rule]int64{}
	for _, rule := range []Rule{Strict, Published} {
		late[rule] = simulate(t, Config{Groups: oneKind(4, 0, independent(exponential(t, 0.5))), Capacity: 2.2, Periods: 64_000, Rule: rule}).Misses
	}
	if late[Strict] != late[Published] || late[Strict] < 10_000 {
		t.Errorf("%d periods are late, %d under the published rule; want as many, and most of 64,000", late[Strict], late[Published])
	}
}

// countdown cancels a context after a number of demands.
type countdown struct {
	left atomic.Int64
	end  context.CancelFunc
}

func (c *countdown) Mean() float64                  { return 0.5 }
func (c *countdown) Start(*rand.Rand) demand.Source { return c }
func (c *countdown) Next(*rand.Rand) float64 {
	if c.left.Add(-1) == 0 {
		c.end()
	}
	return 0.5
}

// TestInterruption: after a cancellation, during or after the warm-up, few more demands are drawn
// for any number of groups.
func TestInterruption(t *testing.T) {
	for _, m := range []int{1, 3000} {
		ctx, end := context.WithCancel(t.Context())
		c := &countdown{end: end}
		c.left.Store(5_000_000) // reached during the warm-up or after it
		_, err := Simulate(ctx, Config{Groups: oneKind(m, 1, c), Periods: 1 << 40, Random: streams(1), Workers: 2})
		if more := -c.left.Load(); !errors.Is(err, context.Canceled) || more > 200_000 {
			t.Errorf("%d groups: %v, and %d demands were drawn afterwards", m, err, more)
		}
	}
}
