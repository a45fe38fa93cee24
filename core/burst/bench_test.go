package burst

import (
	"fmt"
	"testing"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/trace"
)

// fullTick is a tick of 250 containers on 128 CPUs, one in ten of which has its own CPUs.
func fullTick() *Tick {
	t := &Tick{Interval: 100 * ms}
	for range 128 {
		t.Idle = append(t.Idle, 60*ms)
	}
	for i := range 250 {
		base := bandwidth.Limits{Quota: 100 * ms, Period: 100 * ms, Burst: 100 * ms}
		c := Container{ID: fmt.Sprintf("/kubepods/burstable/pod%03d/container", i), Base: base, Present: base, CPUs: cpuset.Range(0, 127),
			Policy: Policy{Mode: Auto, BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}}
		if i%10 == 0 {
			c.CPUs = cpuset.Range(cpuset.CPU(i/10*4), cpuset.CPU(i/10*4+3))
		}
		c.Sample = trace.Sample{Interval: 100 * ms, Usage: 30 * ms}
		t.Containers = append(t.Containers, c)
	}
	return t
}

// step advances by a tick in which the first containers are throttled.
func (t *Tick) step(c *Controller, throttled int, into []Decision) []Decision {
	t.Now += 100 * ms
	for i := range t.Containers {
		t.Containers[i].Sample.Throttled = 0
		if i < throttled {
			t.Containers[i].Sample.Throttled = 1
		}
	}
	into = c.Step(t, into[:0])
	for i := range into {
		t.Containers[i].Present.Quota = into[i].Quota
		t.Containers[i].Writes = 0
		if into[i].Write {
			t.Containers[i].Writes = 1
		}
	}
	return into
}

// BenchmarkStep is one tick of 250 containers with none, 20 and 100 raised.
func BenchmarkStep(b *testing.B) {
	for _, throttled := range []int{0, 20, 100} {
		b.Run(fmt.Sprintf("raised=%d", throttled), func(b *testing.B) {
			c, t := New(), fullTick()
			var into []Decision
			for range 200 {
				into = t.step(c, throttled, into)
			}
			b.ReportAllocs()
			for b.Loop() {
				into = t.step(c, throttled, into)
			}
		})
	}
}

// TestStepAllocatesNothing checks the steady state.
func TestStepAllocatesNothing(t *testing.T) {
	c, tick := New(), fullTick()
	var into []Decision
	raised := 0
	for range 200 {
		into = tick.step(c, 20, into)
	}
	for _, d := range into {
		if d.Raised {
			raised++
		}
	}
	if raised == 0 {
		t.Fatalf("none raised: %+v", into[0])
	}
	if n := testing.AllocsPerRun(50, func() { into = tick.step(c, 20, into) }); n > 0 {
		t.Errorf("%v allocations a tick", n)
	}
}
