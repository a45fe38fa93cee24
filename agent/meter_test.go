package agent

import (
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/needed"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/test/must"
)

// TestMeters checks that samples are accumulated for metrics and for the next tick, that samples of
// unknown cgroups are ignored, and that cgroups that have ended are forgotten.
func TestMeters(t *testing.T) {
	ms := time.Millisecond
	limit := bandwidth.Limits{Quota: 50 * ms, Period: 100 * ms}
	present := bandwidth.Limits{Quota: 50 * ms, Period: 100 * ms}
	var m meters
	web := control.Limited{Path: "/web", Raising: nodeplan.Raising{Base: limit}}
	m.set([]control.Limited{web, {Path: "/a", Raising: nodeplan.Raising{Base: limit}}})
	if d := cmp.Diff([]string{"/a", "/web"}, slices.Sorted(maps.Keys(m.byGroup))); d != "" {
		t.Error(d)
	}
	sample := func(group string, usage time.Duration, s trace.Sample) []sampler.Sample {
		s.Interval, s.Usage, s.Limits = 100*ms, usage, present
		return []sampler.Sample{{Group: group, Sample: s}}
	}
	m.add(sample("/web", 5*ms, trace.Sample{Periods: 1}))
	m.add(sample("/web", 45*ms, trace.Sample{Periods: 1, Throttled: 1, ThrottledTime: 7 * ms}))
	m.add(sample("/web", 60*ms, trace.Sample{Periods: 1, Bursts: 1, BurstTime: 10 * ms}))
	m.add(sample("/unknown", 60*ms, trace.Sample{}))
	samples, changed := m.drain()
	want := map[string]trace.Sample{"/web": {Interval: 300 * ms, Usage: 110 * ms, Periods: 3, Throttled: 1}}
	if d := cmp.Diff(want, samples); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"/web"}, changed); d != "" { // its limits were not known before
		t.Error(d)
	}
	m.count(groups.QuotaChange{Planned: &groups.Planned{Path: "/web"}, Raised: true, Reason: burst.Throttled})
	one := m.byGroup["/web"]
	got := []any{one.samples, one.utilization, one.periods, one.throttled, one.bursts, one.throttledTime, one.burstTime, one.changes[change{true, "throttled"}]}
	expect := []any{uint64(3), [...]uint64{1, 1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3}, uint64(3), uint64(1), uint64(1), 7 * ms, 10 * ms, uint64(1)}
	if d := cmp.Diff(expect, got); d != "" {
		t.Error(d)
	}
	if samples, changed = m.drain(); len(samples) > 0 || len(changed) > 0 {
		t.Errorf("drained twice: %v, %v", samples, changed)
	}
	present.Quota = 80 * ms
	m.add(sample("/web", 0, trace.Sample{}))
	if _, changed = m.drain(); len(changed) != 1 {
		t.Errorf("after a change of the quota the changed groups are %v", changed)
	}
	m.set(nil)
	m.add(sample("/web", 5*ms, trace.Sample{}))
	if samples, _ = m.drain(); len(samples) > 0 || len(m.byGroup) > 0 {
		t.Errorf("a cgroup that has ended still has %v", samples)
	}
}

// TestNative compares the histograms of periods with the client library's native histogram.
func TestNative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h needed.Histogram
		other := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "other", NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: needed.ZeroUpTo})
		for range rapid.IntRange(0, 100).Draw(t, "n") {
			v := rapid.Float64Range(0, 1000).Draw(t, "value")
			if rapid.Bool().Draw(t, "bound") {
				v = math.Exp2(float64(rapid.IntRange(-80, 80).Draw(t, "bucket"))/8) * (1 - 1e-12) // a bound need not be one there
			}
			h.Add(v)
			other.Observe(v)
		}
		buckets, zero, count, sum := h.Counts()
		registry := prometheus.NewRegistry()
		registry.MustRegister(other)
		want := must.Get(registry.Gather())(t)[0].GetMetric()[0].GetHistogram()
		if zero != want.GetZeroCount() || count != want.GetSampleCount() || math.Abs(sum-want.GetSampleSum()) > 1e-6 || want.GetSchema() != needed.Schema {
			t.Fatalf("%d, %d, %v: %v", zero, count, sum, want)
		}
		all, bucket, n := map[int]int64{}, int32(0), int64(0)
		deltas := want.GetPositiveDelta()
		for _, span := range want.GetPositiveSpan() {
			bucket += span.GetOffset()
			for range span.GetLength() {
				if n += deltas[0]; n > 0 {
					all[int(bucket)] = n
				}
				deltas, bucket = deltas[1:], bucket+1
			}
		}
		if !maps.Equal(all, buckets) {
			t.Fatal(cmp.Diff(all, buckets))
		}
	})
}
