package agent

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
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
	m.count(control.QuotaChange{Container: web, Raised: true, Reason: burst.Throttled})
	one := m.byGroup["/web"]
	got := []any{one.samples, math.Round(100 * one.utilizationSum), one.periods, one.throttled, one.bursts, one.throttledTime, one.burstTime, one.changes[change{true, "throttled"}]}
	expect := []any{uint64(3), 220., uint64(3), uint64(1), uint64(1), 7 * ms, 10 * ms, uint64(1)}
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

// TestDemandMetric checks the histogram of demand: nothing is lost of the CPU time, a burst that was
// throttled over several periods counts as demand above the limit, and periods in which a container
// never caught up are missing. All samples are in the histogram of throttled time.
func TestDemandMetric(t *testing.T) {
	const ms = time.Millisecond
	limit := bandwidth.Limits{Quota: 50 * ms, Period: 100 * ms}
	m := newMeter(&control.Limited{Namespace: "shop", Name: "web"})
	m.limit = limit
	at, used := time.Duration(0), time.Duration(0)
	add := func(n int, usage, throttled time.Duration) {
		for range n {
			at += limit.Period
			used += usage
			m.add(&trace.Sample{At: at, Interval: limit.Period, Usage: usage, Periods: 1, Throttled: uint32(min(1, throttled)), ThrottledTime: throttled, Limits: limit})
		}
	}
	demand := func() *dto.Histogram { return histogramOf(t, m.demand) }
	for range 10 { // 150 ms of work for two threads
		add(10, 10*ms, 0)
		add(2, 50*ms, 120*ms)
		add(1, 50*ms, 0)
		add(17, 10*ms, 0)
	}
	d := demand()
	if *d.SampleCount != 300 || math.Abs(*d.SampleSum-10*used.Seconds()) > 1e-6 {
		t.Errorf("%d periods with a demand of %v in all, want 300 with %v", *d.SampleCount, *d.SampleSum, 10*used.Seconds())
	}
	if most := upperBound(d); most < 1 {
		t.Errorf("the highest demand is %v CPUs, less than a burst of two threads", most)
	}
	add(maxRecent, 50*ms, 30*ms)
	if after := *demand().SampleCount; after != *d.SampleCount {
		t.Errorf("%d periods were counted in which the container was always throttled", after-*d.SampleCount)
	}
	if h := histogramOf(t, m.throttling); *h.SampleCount != 300+maxRecent || *h.ZeroCount != 280 || math.Abs(*h.SampleSum-m.throttledTime.Seconds()) > 1e-6 {
		t.Errorf("throttled time is %v, want %d samples, 280 of them with none, and %v in all", h, 300+maxRecent, m.throttledTime)
	}
}

// upperBound returns the upper bound of the highest bucket of a native histogram.
func upperBound(h *dto.Histogram) float64 {
	index := int32(-1)
	for _, span := range h.PositiveSpan {
		index += *span.Offset + int32(*span.Length)
	}
	return math.Exp2(float64(index) / math.Exp2(float64(*h.Schema)))
}

func histogramOf(t *testing.T, h prometheus.Histogram) *dto.Histogram {
	t.Helper()
	var out dto.Metric
	must.Do(t, h.Write(&out))
	return out.Histogram
}

// TestHistogramsSize checks what the histograms of a container with widely varying demand take in a
// scrape.
func TestHistogramsSize(t *testing.T) {
	m := newMeter(&control.Limited{Namespace: "shop", Name: "web-7d4b9c6f5-x2x7q", Ref: nodeplan.Ref{Container: "web"}})
	r := rand.New(rand.NewPCG(1, 2))
	for range 864_000 { // a day in periods of 100 ms
		cpus := math.Exp(r.NormFloat64() - 1)
		m.demand.Observe(cpus)
		m.throttling.Observe(max(0, cpus-1))
	}
	for _, h := range []prometheus.Histogram{m.demand, m.throttling} {
		var out dto.Metric
		must.Do(t, h.Write(&out))
		size := proto.Size(&out)
		t.Logf("%d buckets, %d bytes", len(out.Histogram.PositiveDelta), size)
		if size > 1000 {
			t.Errorf("a histogram takes %d bytes, want at most 1,000", size)
		}
	}
}
