package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/bandwidth"
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
	limit   bandwidth.Limits
	pending trace.Sample     // since the last tick
	present bandwidth.Limits // in the last sample
	// changed is set if present has changed since the last tick.
	changed bool

	samples                    uint64
	utilizationSum             float64
	periods, throttled, bursts uint64
	throttledTime, burstTime   time.Duration
	changes                    map[change]uint64

	recent []trace.Sample // whose demand is not counted yet
	// demand counts what threads wanted in each period, in CPUs. throttling counts how long the
	// container was throttled in each sample, in seconds.
	demand, throttling prometheus.Histogram
}

// change is a kind of change of a quota: raised or lowered, and why.
type change struct {
	raised bool
	reason string
}

// newMeter returns a meter without samples.
func newMeter(l *control.Limited) *meter {
	labels := prometheus.Labels{}
	for i, value := range labelValues(l) {
		labels[containerLabels()[i]] = value
	}
	// Buckets grow by 9%. From the smallest value to the demand of 1,000 CPUs there are 160.
	histogram := func(name, help string, smallest float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pinfold_container_cpu_" + name, Help: help, ConstLabels: labels,
			NativeHistogramBucketFactor: 1.1, NativeHistogramZeroThreshold: smallest, NativeHistogramMaxBucketNumber: 160})
	}
	return &meter{changes: map[change]uint64{},
		demand:     histogram("demand_cores", "CPUs that threads wanted in a period: the usage, or an estimate where the container was throttled. Periods of which that is not known are missing.", 1e-3),
		throttling: histogram("throttling_seconds", "How long the container was throttled in a sample, by default of one period, summed over CPUs.", 1e-4),
	}
}

// sampleSpacing bounds what sampling the containers of one pod costs, some 1.5% of a CPU: those of
// a pod with more than a hundred are sampled less often than once in their period.
const sampleSpacing = time.Millisecond

// run samples until the context ends. It tries again after errors.
func (m *meters) run(ctx context.Context, groups *cgroup.FS, o *Options, log *logdedup.Log) {
	for ctx.Err() == nil {
		if err := m.sample(ctx, groups, o.SampleInterval); ctx.Err() == nil {
			log.Warn("sampler", "containers are not sampled: no quota is raised, and metrics are not updated", err)
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
			one = newMeter(&limited[i])
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

	m.periods += uint64(s.Periods)
	m.throttled += uint64(s.Throttled)
	m.bursts += uint64(s.Bursts)
	m.throttledTime += s.ThrottledTime
	m.burstTime += s.BurstTime
	m.throttling.Observe(s.ThrottledTime.Seconds())
	limit := float64(m.limit.Quota) / float64(m.limit.Period) * float64(s.Interval)
	if !(limit > 0) { // the limit is not known yet
		return
	}
	m.samples++
	m.utilizationSum += float64(s.Usage) / limit
	m.recent = append(m.recent, *s)
	if n := len(m.recent); n >= maxRecent || n >= minRecent && !m.recent[n-1].WasThrottled() && !m.recent[n-2].WasThrottled() {
		m.countDemand()
	}
}

// Demand is computed from minRecent samples at a time. While a container is throttled, samples are
// collected, maxRecent at most, until it has caught up, because that shows what it wanted.
const minRecent, maxRecent = 300, 900

// countDemand counts the demand of recent samples. It is not known of a container that was throttled
// to the end or never caught up, or whose samples were late.
func (m *meter) countDemand() {
	series, whole := trace.Series{Samples: m.recent}, time.Duration(0)
	for i := range m.recent {
		whole += m.recent[i].Interval
	}
	// Short periods, and those of pods with many containers, are sampled several at a time.
	interval := max(m.limit.Period, (whole / time.Duration(len(m.recent))).Round(m.limit.Period))
	demand, err := series.Demand(interval, interval)
	m.recent = m.recent[:0]
	if err != nil || demand.Open > 0 {
		return
	}
	for _, cpus := range demand.CPUs {
		m.demand.Observe(cpus)
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
func (m *meters) count(c control.QuotaChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if one := m.byGroup[c.Container.Path]; one != nil {
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
	utilization := prometheus.NewDesc("pinfold_container_cpu_utilization_ratio", "CPU time used in a sample, as a part of the limit.", labels, nil)
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
		out <- prometheus.MustNewConstSummary(utilization, one.samples, one.utilizationSum, nil, of...)
		one.demand.Collect(out)
		one.throttling.Collect(out)
		periods(float64(one.periods), of...)
		throttled(float64(one.throttled), of...)
		throttledTime(one.throttledTime.Seconds(), of...)
		bursts(float64(one.bursts), of...)
		burstTime(one.burstTime.Seconds(), of...)
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
