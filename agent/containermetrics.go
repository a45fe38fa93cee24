package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pinfold.dev/pinfold/agent/control"
)

// containerMetrics describe what containers with a quota did, and what they have. There are
// as many of them as such containers run on the node; those of a container go with it.
type containerMetrics struct {
	engine                                            *engine
	utilization, periods, throttled, throttledTime    *prometheus.Desc
	bursts, burstTime, limit, quota, period, burst    *prometheus.Desc
	raisedSince, raises, lowers                       *prometheus.Desc
	samplerTime, samplerGroups, samples, late, missed *prometheus.Desc
	gaps, wakeDelay                                   *prometheus.Desc
}

func newContainerMetrics(e *engine) *containerMetrics {
	container := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pinfold_container_cpu_"+name, help, append([]string{"namespace", "pod", "container"}, labels...), nil)
	}
	own := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pinfold_sampler_"+name, help, labels, nil)
	}
	return &containerMetrics{
		engine:        e,
		utilization:   container("utilization_ratio", "CPU time used in a sample, by default of one period, as a part of the limit."),
		periods:       container("periods_total", "Periods in which the kernel's bandwidth timer ran; fewer than have gone by."),
		throttled:     container("throttled_periods_total", "Periods in which the container was throttled."),
		throttledTime: container("throttled_seconds_total", "How long the container was throttled, summed over CPUs."),
		bursts:        container("burst_periods_total", "Periods in which the kernel's burst was used."),
		burstTime:     container("burst_used_seconds_total", "CPU time used beyond quota, out of the kernel's burst."),
		limit:         container("limit_cores", "The limit, in CPUs."),
		quota:         container("quota_cores", "The quota that the control group has at present, in CPUs; above the limit while it is raised."),
		period:        container("period_seconds", "The period that the control group has at present."),
		burst:         container("burst_seconds", "The kernel's burst that the control group has at present: the CPU time that can be saved up."),
		raisedSince:   container("quota_raised_since_timestamp_seconds", "When the quota was raised above the limit; there while it is."),
		raises:        container("quota_raises_total", "How often the quota was raised.", "reason"),
		lowers:        container("quota_lowers_total", "How often a raised quota was lowered.", "reason"),
		samplerTime:   own("cpu_seconds_total", "CPU time that sampling containers took."),
		samplerGroups: own("groups", "Control groups that are sampled."),
		samples:       own("samples_total", "Samples that were taken."),
		late:          own("late_samples_total", "Samples that cover a quarter more time than they should."),
		missed:        own("missed_total", "Moments at which samples should have been taken and were not."),
		gaps:          own("gaps_total", "Samples that were left out because counters went backwards."),
		wakeDelay:     own("wake_delay_seconds", "How late the sampler wakes up at most in so many of 100 cases.", "percentile"),
	}
}

// Describe implements [prometheus.Collector].
func (m *containerMetrics) Describe(out chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(m, out)
}

// Collect implements [prometheus.Collector].
func (m *containerMetrics) Collect(out chan<- prometheus.Metric) {
	m.engine.mu.Lock()
	limited, s := m.engine.control.Limited(), m.engine.sampler
	m.engine.mu.Unlock()
	for i := range limited {
		m.present(out, &limited[i])
	}
	if s == nil {
		return
	}
	m.counted(out, limited)
	cost := s.Cost()
	counter := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v)
	}
	counter(m.samplerTime, cost.CPU.Seconds())
	counter(m.samples, float64(cost.Samples))
	counter(m.late, float64(cost.Late))
	counter(m.missed, float64(cost.Missed))
	counter(m.gaps, float64(cost.Gaps))
	out <- prometheus.MustNewConstMetric(m.samplerGroups, prometheus.GaugeValue, float64(cost.Groups))
	for percentile, delay := range map[string]time.Duration{"50": cost.Jitter50, "99": cost.Jitter99, "100": cost.JitterMax} {
		out <- prometheus.MustNewConstMetric(m.wakeDelay, prometheus.GaugeValue, delay.Seconds(), percentile)
	}
}

// present is what a container has.
func (m *containerMetrics) present(out chan<- prometheus.Metric, l *control.Limited) {
	gauge := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, l.Namespace, l.Name, l.Container)
	}
	gauge(m.limit, cores(l.Base.Quota, l.Base.Period))
	gauge(m.period, l.Present.Period.Seconds())
	gauge(m.burst, l.Present.Burst.Seconds())
	if l.Present.Quota > 0 {
		gauge(m.quota, cores(l.Present.Quota, l.Present.Period))
	}
	if l.Raise.Quota > 0 {
		gauge(m.raisedSince, float64(l.Raise.Since.UnixMilli())/1000)
	}
}

// cores is an amount of CPU time in another as a number of CPUs.
func cores(quota, period time.Duration) float64 { return float64(quota) / float64(period) }

// counted is what containers did.
func (m *containerMetrics) counted(out chan<- prometheus.Metric, limited []control.Limited) {
	meters := &m.engine.meters
	meters.mu.Lock()
	defer meters.mu.Unlock()
	for i := range limited {
		l := &limited[i]
		one := meters.byGroup[l.Group]
		if one == nil {
			continue
		}
		counter := func(d *prometheus.Desc, v float64, labels ...string) {
			labels = append([]string{l.Namespace, l.Name, l.Container}, labels...)
			out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
		}
		buckets := make(map[float64]uint64, len(utilizationBounds))
		for i, bound := range utilizationBounds {
			buckets[bound] = one.utilization[i]
		}
		out <- prometheus.MustNewConstHistogram(m.utilization, one.samples, one.utilizationSum, buckets, l.Namespace, l.Name, l.Container)
		counter(m.periods, float64(one.periods))
		counter(m.throttled, float64(one.throttled))
		counter(m.throttledTime, one.throttledTime.Seconds())
		counter(m.bursts, float64(one.bursts))
		counter(m.burstTime, one.burstTime.Seconds())
		for c, n := range one.changes {
			if c.raised {
				counter(m.raises, float64(n), c.reason)
			} else {
				counter(m.lowers, float64(n), c.reason)
			}
		}
	}
}

var _ prometheus.Collector = (*containerMetrics)(nil)
