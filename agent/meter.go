package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/needed"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/sampler"
)

// meters accumulate the samples of containers with a quota, for ticks and metrics. They have their
// own lock, so that the sampler does not wait for rounds.
type meters struct {
	mu      sync.Mutex
	byGroup map[string]*meter
	sampler *sampler.Sampler // nil until containers are sampled
}

// meter accumulates the samples of one container since its cgroup was created or the agent started.
type meter struct {
	since   time.Time
	limit   bandwidth.Limits
	pending trace.Sample     // since the last tick
	present bandwidth.Limits // in the last sample
	// changed is set if present has changed since the last tick.
	changed bool

	samples                    uint64
	utilization                [len(utilizationBounds)]uint64 // number of samples up to each bound
	utilizationSum             float64
	periods, throttled, bursts uint64
	throttledTime, burstTime   time.Duration
	unknown                    trace.Figures
	changes                    map[change]uint64

	meter needed.Meter
	// What was wanted in periods, the limit that they needed, and for how long it was throttled in samples in which it
	// was.
	wanted, limits, stood needed.Histogram
}

// change is a kind of change of a quota: raised or lowered, and why.
type change struct {
	raised bool
	reason string
}

// utilizationBounds are the bounds of the histogram, as multiples of the limit.
var utilizationBounds = [...]float64{0.1, 0.25, 0.5, 0.75, 0.9, 1, 1.1, 1.25, 1.5, 2, 3, 5}

// sampleSpacing bounds what sampling the containers of one pod costs, some 1.5% of a CPU: those of
// a pod with more than a hundred are sampled less often than once in their period.
const sampleSpacing = time.Millisecond

// run samples until the context ends. It tries again after errors.
func (m *meters) run(ctx context.Context, groups *cgroup.FS, o *Options, dedup *logdedup.Log) {
	for ctx.Err() == nil {
		if err := m.sample(ctx, groups, o.SampleInterval); ctx.Err() == nil {
			dedup.Warn("sampler", "containers are not sampled: no quota is raised, and metrics are not updated", err)
			sleep.For(ctx, o.RetryAfter)
		}
	}
}

// sample samples the usage and throttling of containers until the context ends. shortest is the
// least time between two samples of a container.
func (m *meters) sample(ctx context.Context, groups *cgroup.FS, shortest time.Duration) error {
	s, err := sampler.New(groups, sampler.Options{Shortest: shortest, Spacing: sampleSpacing})
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.sampler = s
	s.Set(slices.Sorted(maps.Keys(m.byGroup)))
	m.mu.Unlock()
	return s.Run(ctx, func(t *sampler.Tick) error { m.add(t.Samples); return nil })
}

// set sets the containers that exist.
func (m *meters) set(limited []control.Limited) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := make(map[string]*meter, len(limited))
	for i := range limited {
		group := limited[i].Path
		one := m.byGroup[group]
		if one == nil {
			one = &meter{since: time.Now(), changes: map[change]uint64{}}
		}
		one.limit = limited[i].Base
		now[group] = one
	}
	m.byGroup = now
	if m.sampler != nil {
		m.sampler.Set(slices.Sorted(maps.Keys(now)))
	}
}

// add adds samples. Samples of unknown containers are ignored.
func (m *meters) add(samples []sampler.Sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range samples {
		if one := m.byGroup[samples[i].Group]; one != nil {
			one.add(&samples[i].Sample)
		}
	}
}

func (m *meter) add(s *trace.Sample) {
	m.pending.Interval += s.Interval
	m.pending.Usage += s.Usage
	m.pending.Periods += s.Periods
	m.pending.Throttled += s.Throttled
	m.changed = m.changed || s.Limits != m.present
	m.present = s.Limits

	m.unknown |= s.Unknown
	m.periods += uint64(s.Periods)
	m.throttled += uint64(s.Throttled)
	m.bursts += uint64(s.Bursts)
	m.throttledTime += s.ThrottledTime
	m.burstTime += s.BurstTime
	if s.ThrottledTime > 0 {
		m.stood.Add(s.ThrottledTime.Seconds())
	}
	m.meter.Add(s, func(p needed.Period) {
		m.wanted.Add(p.CPUs)
		m.limits.Add(p.Limit)
	})
	limit := float64(m.limit.Quota) / float64(m.limit.Period) * float64(s.Interval)
	if !(limit > 0) { // the limit is not known yet
		return
	}
	utilization := float64(s.Usage) / limit
	m.samples++
	m.utilizationSum += utilization
	for i, bound := range utilizationBounds {
		if utilization <= bound {
			m.utilization[i]++
		}
	}
}

// drain returns the sum of the samples since the last call, by path, and the paths whose limits
// have changed.
func (m *meters) drain() (samples map[string]trace.Sample, changed []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	samples = make(map[string]trace.Sample, len(m.byGroup))
	for group, one := range m.byGroup {
		if one.pending.Interval > 0 {
			samples[group] = one.pending
			one.pending = trace.Sample{}
		}
		if one.changed {
			changed = append(changed, group)
			one.changed = false
		}
	}
	return samples, changed
}

// count counts a change of a container's quota.
func (m *meters) count(c groups.QuotaChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.byGroup[c.Path]; one != nil {
		one.changes[change{c.Raised, c.Reason.String()}]++
	}
}

// collect sends the metrics of containers that have been sampled, and the cost of sampling.
func (m *meters) collect(out chan<- prometheus.Metric, limited []control.Limited) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sampler == nil {
		return
	}
	collectSampler(out, m.sampler.Cost())
	labels := containerLabels()
	utilization := prometheus.NewDesc("pinfold_container_cpu_utilization_ratio",
		"CPU time used in a sample, by default of one period, as a part of the limit.", labels, nil)
	wanted := prometheus.NewDesc("pinfold_container_cpu_wanted_cores",
		"CPUs that the container wanted in an enforcement period: while it is throttled, estimated from what it used afterwards.", labels, nil)
	limits := prometheus.NewDesc("pinfold_container_cpu_needed_limit_cores",
		"The smallest limit, in CPUs, that with a burst of the same size would not have throttled the container in an enforcement period.", labels, nil)
	stood := prometheus.NewDesc("pinfold_container_cpu_throttled_period_seconds",
		"For how long the container was throttled in a sample, by default of one period, in which it was, summed over CPUs.", labels, nil)
	native := func(desc *prometheus.Desc, h *needed.Histogram, since time.Time, of []string) {
		buckets, zero, count, sum := h.Counts()
		out <- prometheus.MustNewConstNativeHistogram(desc, count, sum, buckets, nil, zero, needed.Schema, needed.ZeroUpTo, since, of...)
	}
	periods := counter(out, "container_cpu_periods_total", "Periods in which the kernel's bandwidth timer ran; it does not run while the container is idle.", labels...)
	throttled := counter(out, "container_cpu_throttled_periods_total", "Periods in which the container was throttled.", labels...)
	throttledTime := counter(out, "container_cpu_throttled_seconds_total", "How long the container was throttled, summed over CPUs.", labels...)
	bursts := counter(out, "container_cpu_burst_periods_total", "Periods in which the kernel's burst was used.", labels...)
	burstTime := counter(out, "container_cpu_burst_used_seconds_total", "CPU time used beyond the quota, from the kernel's burst.", labels...)
	raises := counter(out, "container_cpu_quota_raises_total", "How often the quota was raised.", containerLabels("reason")...)
	lowers := counter(out, "container_cpu_quota_lowers_total", "How often a raised quota was lowered.", containerLabels("reason")...)
	for i := range limited {
		l := &limited[i]
		one := m.byGroup[l.Path]
		if one == nil {
			continue
		}
		of := labelValues(l)
		buckets := make(map[float64]uint64, len(utilizationBounds))
		for i, bound := range utilizationBounds {
			buckets[bound] = one.utilization[i]
		}
		out <- prometheus.MustNewConstHistogram(utilization, one.samples, one.utilizationSum, buckets, of...)
		if !one.unknown.Has(trace.ThrottledTime) { // else it is not known what was wanted, either
			native(wanted, &one.wanted, one.since, of)
			native(limits, &one.limits, one.since, of)
			native(stood, &one.stood, one.since, of)
		}
		periods(float64(one.periods), of...)
		throttled(float64(one.throttled), of...)
		if !one.unknown.Has(trace.ThrottledTime) {
			throttledTime(one.throttledTime.Seconds(), of...)
		}
		if !one.unknown.Has(trace.Bursts) {
			bursts(float64(one.bursts), of...)
			burstTime(one.burstTime.Seconds(), of...)
		}
		for c, n := range one.changes {
			if c.raised {
				raises(float64(n), labelValues(l, c.reason)...)
			} else {
				lowers(float64(n), labelValues(l, c.reason)...)
			}
		}
	}
}

// collectSampler sends the cost and the failures of sampling.
func collectSampler(out chan<- prometheus.Metric, cost sampler.Cost) {
	counter(out, "sampler_cpu_seconds_total", "CPU time that sampling containers took.")(cost.CPU.Seconds())
	gauge(out, "sampler_groups", "Control groups that are sampled.")(float64(cost.Groups))
	counter(out, "sampler_samples_total", "Samples that were taken.")(float64(cost.Samples))
	counter(out, "sampler_late_samples_total", "Samples that cover a quarter more time than they should.")(float64(cost.Late))
	counter(out, "sampler_missed_total", "Samples that were not taken in time and are missing.")(float64(cost.Missed))
	counter(out, "sampler_gaps_total", "Samples that were discarded because counters went backwards.")(float64(cost.Gaps))
	wakeDelay := gauge(out, "sampler_wake_delay_seconds", "How late the sampler wakes up, as a percentile.", "percentile")
	wakeDelay(cost.Jitter50.Seconds(), "50")
	wakeDelay(cost.Jitter99.Seconds(), "99")
	wakeDelay(cost.JitterMax.Seconds(), "100")
}
