package agent

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/sampler"
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
