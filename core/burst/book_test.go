package burst

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/trace"
)

// TestBucket compares the bucket with exact arithmetic: it gains limit x time, loses usage, and a
// quota and burst per write, and does not overflow.
func TestBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base := drawBase(t)
		box := Container{ID: "a", Base: base, Present: base, Policy: drawPolicy(t), CPUs: cpuset.Range(0, 3)}
		c := New()
		var now time.Duration
		d := c.Step(&Tick{Containers: []Container{box}}, nil)[0]
		want := new(big.Rat).SetInt64(int64(d.Tokens))
		if d.Tokens >= 0 {
			t.Fatalf("starts with %v", d.Tokens)
		}
		most := new(big.Rat).SetInt64(int64(capacity(base.Quota, base.Period, box.Policy)))
		ticks := rapid.IntRange(1, 50).Draw(t, "ticks")
		for range ticks {
			interval := time.Duration(rapid.Int64Range(1, int64(20*time.Second)).Draw(t, "interval"))
			box.Sample = trace.Sample{Interval: interval, Usage: time.Duration(rapid.Int64Range(0, int64(interval)).Draw(t, "usage"))}
			box.Writes = rapid.SampledFrom([]int{0, 0, 1, 5}).Draw(t, "writes")
			now += interval
			d = c.Step(&Tick{Now: now, Containers: []Container{box}}, nil)[0]

			gain := big.NewRat(int64(base.Quota), int64(base.Period))
			want.Add(want, gain.Mul(gain, new(big.Rat).SetInt64(int64(interval))))
			want.Sub(want, new(big.Rat).SetInt64(int64(box.Sample.Usage)))
			want.Sub(want, new(big.Rat).SetInt64(int64(box.Writes)*int64(base.Quota+base.Burst)))
			if want.Cmp(most) > 0 {
				want.Set(most)
			}
		}
		// Each tick rounds the gain down to a nanosecond.
		exact, _ := want.Float64()
		if off := exact - float64(d.Tokens); off < -1 || off > float64(ticks)+1 {
			t.Fatalf("%d tokens, exactly %v", d.Tokens, exact)
		}
	})
}

// TestTotality steps over nonsensical input: there is no panic, and the quota is that of Base or a
// higher one.
func TestTotality(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		odd := rapid.SampledFrom([]time.Duration{-1 << 63, -1, 0, 1, ms, 100 * ms, time.Hour, maxAmount, 1<<63 - 1})
		number := rapid.SampledFrom([]int{-1 << 63, -1, 0, 1, 100, 300, 10000, 1<<63 - 1})
		limits := rapid.Custom(func(t *rapid.T) bandwidth.Limits {
			return bandwidth.Limits{Quota: odd.Draw(t, "quota"), Period: odd.Draw(t, "period"), Burst: odd.Draw(t, "burst")}
		})
		c := New()
		for range 20 {
			box := Container{ID: "a", Base: limits.Draw(t, "base"), Present: limits.Draw(t, "present"), Writes: number.Draw(t, "writes"),
				Policy: Policy{rapid.SampledFrom(append(Modes(), "", "other")).Draw(t, "mode"), number.Draw(t, "burst"), number.Draw(t, "percent"), number.Draw(t, "seconds")},
				Sample: trace.Sample{Interval: odd.Draw(t, "interval"), Usage: odd.Draw(t, "usage"), Throttled: 1}, CPUs: cpuset.Range(0, 1)}
			tick := Tick{Now: odd.Draw(t, "now"), Interval: odd.Draw(t, "looked"), Idle: []time.Duration{odd.Draw(t, "idle")}, Containers: []Container{box}}
			if d := c.Step(&tick, nil)[0]; d.Quota != box.Base.Quota && d.Quota <= box.Base.Quota {
				t.Fatalf("%+v for %+v", d, box)
			}
		}
	})
}

// TestGap has counters that were reset, so a sample covers only a part of the time since the last
// one. For the rest, the most that the raised quota grants above the limit is charged. A part of a
// tick does not count as a gap, and a quota that is not raised grants nothing.
func TestGap(t *testing.T) {
	for _, test := range []struct {
		name    string
		raised  bool
		missing time.Duration
		charge  time.Duration
	}{
		{"limit", false, time.Second, 0},
		{"part of a tick", true, 90 * ms, 0},
		{"a second", true, time.Second, 200 * ms},
	} {
		t.Run(test.name, func(t *testing.T) {
			base := bandwidth.Limits{Quota: 10 * ms, Period: 100 * ms}
			box := Container{ID: "a", Base: base, Present: base, CPUs: cpuset.Range(0, 1),
				Policy: Policy{Mode: Quota, QuotaPercent: 300, QuotaBurstSeconds: 60}}
			tick := Tick{Interval: 100 * ms, Idle: []time.Duration{100 * ms, 100 * ms}}
			c := New()
			step := func(interval, missing time.Duration, throttled uint32) Decision {
				tick.Now += interval + missing
				box.Sample = trace.Sample{Interval: interval, Throttled: throttled}
				tick.Containers = []Container{box}
				d := c.Step(&tick, nil)[0]
				box.Present.Quota = d.Quota
				return d
			}
			step(0, 0, 0)
			for range 100 {
				step(100*ms, 0, 0)
			}
			throttled := uint32(0)
			if test.raised {
				throttled = 1
			}
			before := step(100*ms, 0, throttled)
			if before.Raised != test.raised {
				t.Fatalf("%+v", before)
			}
			if after := step(100*ms, test.missing, 0); after.Tokens != before.Tokens+10*ms-test.charge {
				t.Errorf("tokens %v after %v, charged is %v", after.Tokens, before.Tokens, test.charge)
			}
		})
	}
}
