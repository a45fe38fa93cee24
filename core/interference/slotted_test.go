package interference

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/demand"
	"pinfold.dev/pinfold/test/must"
)

// newSlots returns an engine for equal groups with prepared demands, whose periods begin in given slots.
func newSlots(slots int64, capacity, burst float64, first []int64, demands []int64) *slotted {
	m := len(first)
	p := &plan{rule: Apart, capacity: int64(capacity * quotaTicks), slots: slots, busy: 1}
	x := newSlotted(p, []kind{{end: m, quota: quotaTicks, burst: int64(burst * quotaTicks), demand: newRows(&prepared{demands, quotaTicks}, m)}}, rand.New(rand.NewPCG(1, 1)))
	copy(x.first, first)
	return x
}

// TestSlotsTogether: with one slot, and enough capacity for all, the model is that of periods that begin
// together.
func TestSlotsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.IntRange(1, 8).Draw(t, "m")
		burst := rapid.SampledFrom([]float64{0, 0.5, 1, 5}).Draw(t, "burst")
		demands := drawDemands(t, m*(steps+1024), rapid.Float64Range(0.1, 1.2).Draw(t, "load"), false)
		capacity := float64(m) * (1 + burst)
		x := newSlots(1, capacity, burst, make([]int64, m), demands)
		want := newMixed(Strict, int64(capacity*quotaTicks), []kind{{end: m, quota: quotaTicks, burst: int64(burst * quotaTicks), demand: newRows(&prepared{demands, quotaTicks}, m)}})
		for n := range steps {
			if must.Get(x.step())(t) || must.Get(want.step())(t) {
				t.Fatalf("period %d is late", n)
			}
		}
		for i := range x.need { // the last period is not over
			x.refill(&x.kinds[0], i)
		}
		if got, want := x.sums()[0], want.sums()[0]; got.demand != want.demand || got.backlog != want.backlog || got.burst != want.burst || got.throttled != want.throttled {
			t.Fatalf("sums %+v, want %+v", got, want)
		}
	})
}

// TestSlotsByHand has two groups with half of the capacity each, and no burst. One can use its quota at the end of
// a period and again at the beginning of the next, so the other one is late. That cannot happen where periods
// begin together.
func TestSlotsByHand(t *testing.T) {
	const q = quotaTicks
	slot := func(a, b float64) []int64 { return []int64{int64(a * q), int64(b * q)} }
	var demands []int64
	for _, d := range [][]int64{slot(0, 0), slot(2, 1), slot(0, 2), slot(0, 0), slot(0, 0), slot(0, 0)} {
		demands = append(demands, d...)
	}
	demands = append(demands, make([]int64, 2048)...)
	x := newSlots(2, 2, 0, []int64{0, 0}, demands)
	x.first[0], x.first[1] = 0, 1
	var late []bool
	for range 3 {
		late = append(late, must.Get(x.step())(t))
	}
	// Slot 0: nothing. Slot 1: both want a quota, and get half of one. Slot 2: the first has a new quota and wants 1.5,
	// the other one has half of its own left; each gets a half. Slot 3: both get a half again, and are not done: the period
	// is late. Then all is done in time.
	if late[0] || !late[1] || late[2] {
		t.Errorf("late: %v", late)
	}
	if x.need[0] != 0 || x.busyPeriods != 2 {
		t.Errorf("left %v, %d busy periods", x.need, x.busyPeriods)
	}
}

// TestSlotsConserve checks after each period that no group has used more than its quota and tokens, none has
// less than nothing, and nothing was lost.
func TestSlotsConserve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, slots := rapid.IntRange(1, 8).Draw(t, "m"), rapid.Int64Range(1, 10).Draw(t, "slots")
		burst := rapid.SampledFrom([]float64{0, 0.5, 2}).Draw(t, "burst")
		first := make([]int64, m)
		for i := range first {
			first[i] = rapid.Int64Range(0, slots-1).Draw(t, "first")
		}
		demands := drawDemands(t, m*(steps*int(slots)+1024), rapid.Float64Range(0.1, 1).Draw(t, "load")/float64(slots), false)
		capacity := rapid.Float64Range(0.5, 1.5).Draw(t, "capacity") * float64(m)
		x := newSlots(slots, capacity, burst, first, demands)
		drawn, left, done := int64(0), int64(0), int64(0)
		for n := range steps {
			before := drawn - left
			must.Get(x.step())(t)
			drawn, left = 0, 0
			for _, d := range demands[:(n+1)*int(slots)*m] {
				drawn += d
			}
			for i := range x.need {
				left += x.need[i]
				if x.need[i] < 0 || x.left[i] < 0 || x.left[i] > int64((1+burst)*quotaTicks) || x.used[i] > int64((1+burst)*quotaTicks) {
					t.Fatalf("period %d, group %d: need %d, left %d, used %d", n, i, x.need[i], x.left[i], x.used[i])
				}
			}
			if done = drawn - left; done < before || done-before > x.capacity {
				t.Fatalf("period %d: %d of %d ticks used", n, done-before, x.capacity)
			}
		}
	})
}

// TestSlotsAlone checks the share of throttled periods of a single group against the exact one (see exact_test.go).
// When its periods begin does not matter.
func TestSlotsAlone(t *testing.T) {
	r := must.Get(Simulate(t.Context(), Config{Groups: []Group{{Count: 1, Quota: 1, Burst: 1, Demand: demand.Independent{Distribution: must.Get(demand.NewExponential(.7))(t)}}},
		Capacity: 100, Rule: Apart, Busy: 1, Periods: 400_000, Random: streams(1), Workers: 2}))(t)
	sigma := 0.46699642 // exp(-(1-sigma)/0.7)
	if got := r.Groups[0].ThrottleRatio; math.Abs(got.Value-sigma*sigma) > 4*got.StandardError || r.Misses > 0 || r.Busy.Value > 0 {
		t.Errorf("throttled %+v, want %.4f; %d late, busy %+v", got, sigma*sigma, r.Misses, r.Busy)
	}
}

// TestSlotsShares: scarce capacity is divided in proportion to the quotas, and the slots in which periods begin are
// random.
func TestSlotsShares(t *testing.T) {
	demands := func(quota int64) *rows {
		return newRows(&prepared{append([]int64{8 * quotaTicks, 0}, make([]int64, 2048)...), quota}, 1)
	}
	p := &plan{rule: Apart, capacity: 2 * quotaTicks, slots: 1}
	kinds := []kind{{end: 1, quota: quotaTicks, demand: demands(quotaTicks)}, {first: 1, end: 2, quota: 3 * quotaTicks, demand: demands(3 * quotaTicks)}}
	x := newSlotted(p, kinds, rand.New(rand.NewPCG(1, 1)))
	if late := must.Get(x.step())(t); !late || x.used[0] != quotaTicks/2 || x.used[1] != 3*quotaTicks/2 {
		t.Errorf("late %v, used %v", late, x.used)
	}
	p.slots = 10
	begins := map[int64]int{}
	for _, first := range newSlotted(p, []kind{{end: 1000, quota: quotaTicks, demand: demands(quotaTicks)}}, rand.New(rand.NewPCG(1, 1))).first {
		begins[first]++
	}
	if len(begins) != 10 {
		t.Errorf("periods begin in the slots %v", begins)
	}
}
