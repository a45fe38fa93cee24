package advice

import (
	"math/rand/v2"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/bandwidth/bandwidthtest"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/test/race"
)

// busyMachine is a service on a machine on which others run.
type busyMachine struct {
	threads int
	work    time.Duration // of a request, on average
	load    float64       // CPUs, on average
	quota   time.Duration // bandwidth.Unlimited: no limit
	burst   time.Duration
	taken   float64 // share of the time for which others have each CPU
	turn    time.Duration
}

// record records the service for a time, with requests that depend on the seed alone.
func (m busyMachine) record(t *testing.T, seed uint64, length time.Duration) *trace.Series {
	t.Helper()
	const interval = 20 * time.Millisecond
	arrivals, others := rand.New(rand.NewPCG(seed, 1)), rand.New(rand.NewPCG(seed, 2))
	limits := bandwidth.Limits{Quota: m.quota, Period: period, Burst: m.burst}
	g, err := bandwidthtest.NewServer(m.threads, 37*time.Millisecond, limits)
	if err != nil {
		t.Fatal(err)
	}
	exp := func(r *rand.Rand, mean time.Duration) time.Duration {
		return 1 + time.Duration(r.ExpFloat64()*float64(mean))
	}
	s := &trace.Series{Group: "/service"}
	request, turn := time.Duration(0), time.Duration(0)
	waited := time.Duration(0)
	before := g.Stats()
	for at := interval; at <= length; at += interval {
		for next := min(request, turn); next < at; next = min(request, turn) {
			g.Advance(next)
			if next == request {
				g.Submit(exp(arrivals, m.work))
				request += exp(arrivals, time.Duration(float64(m.work)/m.load))
				continue
			}
			taken := 0
			for range m.threads {
				if others.Float64() < m.taken {
					taken++
				}
			}
			g.Take(taken)
			turn += exp(others, m.turn)
		}
		g.Advance(at)
		sample := g.Stats().Sample(before, at, interval, limits)
		if at%(5*interval) == 0 {
			sample.Waited, waited = g.Waited()-waited, g.Waited()
		}
		s.Samples = append(s.Samples, sample)
		before = g.Stats()
	}
	return s
}

// drawMachine returns a machine at random: with a limit or without, and busy or idle.
func drawMachine(r *rand.Rand) busyMachine {
	m := busyMachine{threads: 1 << r.IntN(3), work: time.Duration(5+r.IntN(75)) * time.Millisecond, load: .1 + .4*r.Float64(),
		quota: bandwidth.Unlimited, turn: 8 * time.Millisecond}
	if r.IntN(2) == 0 {
		m.quota = time.Duration((1.3 + r.Float64()) * m.load * float64(period)).Round(time.Microsecond)
	}
	if r.IntN(3) > 0 {
		m.taken = .6 * r.Float64() * (1 - m.load)
	}
	return m
}

// TestBusyMachine: the limit that a service needs alone is between those for the least and the most
// that it may have wanted where it waited. Idle machines give no reason for doubt.
func TestBusyMachine(t *testing.T) {
	const length, seeds = 2 * time.Minute, 24
	r := rand.New(rand.NewPCG(7, 7))
	doubts := 0
	for seed := range uint64(seeds) {
		m := drawMachine(r)
		alone := m
		alone.quota, alone.taken = bandwidth.Unlimited, 0
		truth := newSubject(alone.record(t, seed, length), 20*time.Millisecond, DefaultGoal())
		sub := newSubject(m.record(t, seed, length), 20*time.Millisecond, DefaultGoal())
		apart := sub.whyFarApart()
		if apart != "" {
			doubts++
		}
		if m.taken == 0 && (apart != "" || sub.waited > trace.MaxWaited) {
			t.Errorf("%+v: waited %v on an idle machine: %s", m, sub.waited, apart)
		}
		if sub.waited <= trace.MaxWaited {
			continue
		}
		for _, burst := range []float64{0, 1} {
			right := truth.smallestLimit(truth.wanted, burst)
			if low, high := sub.smallestLimit(sub.least, burst), sub.smallestLimit(sub.wanted, burst); low > right || high < right {
				t.Errorf("%+v, burst %v, waited %v: between %v and %v CPUs, want %v", m, burst, sub.waited, low, high, right)
			}
		}
	}
	if doubts > seeds/2 {
		t.Errorf("doubts in %d of %d cases", doubts, seeds)
	}
}

// TestAdviceFollowed: a service that runs under the advised limit is not advised to change it much,
// and does not need more replicas.
func TestAdviceFollowed(t *testing.T) {
	race.SkipLong(t)
	advise := func(m busyMachine, seed uint64) *Container {
		c, err := ForContainer(t.Context(), m.record(t, seed, 3*time.Minute), 20*time.Millisecond, DefaultGoal(), seeded(1))
		if err != nil {
			t.Fatal(err)
		}
		return &c
	}
	for _, m := range []busyMachine{
		{threads: 1, work: 4 * time.Millisecond, load: .6, quota: bandwidth.Unlimited, turn: time.Second},
		{threads: 4, work: 10 * time.Millisecond, load: 2.5, quota: bandwidth.Unlimited, turn: time.Second},
	} {
		before := advise(m, 1)
		d, ok := before.Decide(DefaultGoal())
		if !ok || d.Repairs {
			t.Fatalf("%+v: %+v: %s", m, d, before.LimitWithBurst.Reason)
		}
		m.quota = time.Duration(d.LimitCPUs * float64(period))
		m.burst = time.Duration(d.BurstPercent / 100 * float64(m.quota))
		after := advise(m, 2)
		if after.ScaleOut.Utilisation < half || after.ScaleOut.Needed {
			t.Errorf("%+v: used at %v: %s", m, after.ScaleOut.Utilisation, after.ScaleOut.Reason)
		}
		if r := *after.Recorded.ThrottleRatio; r < before.LimitWithBurst.LowThrottleRatio || r > before.LimitWithBurst.HighThrottleRatio {
			t.Errorf("%+v: throttled in %v, want %v to %v", m, r, before.LimitWithBurst.LowThrottleRatio, before.LimitWithBurst.HighThrottleRatio)
		}
	}
}
