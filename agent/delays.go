package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/blame"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/schedtrace"
)

// delays are how long the threads of containers waited for CPUs, and were throttled, each time.
type delays struct {
	monitor           *schedtrace.Monitor
	waited, throttled *prometheus.HistogramVec

	mu      sync.Mutex
	byGroup map[string]containerDelays
}

// containerDelays are the delays of one container.
type containerDelays struct {
	labels            [3]string
	waited, throttled prometheus.Observer
}

// traceRing is the size of the buffer for events in bytes. It holds 32,000 events, enough for
// 600,000 a second at one reading every 50 ms.
const traceRing = 2 << 20

// newDelays returns the delays of no container. maxShare is what tracing may use of the machine's
// CPU time; unlisted receives which groups in containers cannot be listed.
func newDelays(groups *cgroup.FS, maxShare float64, unlisted func(error)) *delays {
	vec := func(name, help string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "pinfold_container_cpu_" + name, Help: help,
			Buckets: []float64{1e-5, 1e-4, 1e-3, 2e-3, 5e-3, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1}}, containerLabels())
	}
	d := &delays{byGroup: map[string]containerDelays{},
		waited:    vec("run_delay_seconds", "How long a thread that was ready to run waited for a CPU, each time, without the time in which it was throttled."),
		throttled: vec("throttle_delay_seconds", "How long a thread that was ready to run was throttled, each time.")}
	d.monitor = schedtrace.NewMonitor(groups, schedtrace.Options{Ring: traceRing, MaxShare: maxShare, Unlisted: unlisted}, d.add)
	return d
}

// add adds a delay of a container. That of an unknown one is ignored.
func (d *delays) add(group string, one blame.Delay) {
	d.mu.Lock()
	c, known := d.byGroup[group]
	d.mu.Unlock()
	if !known {
		return
	}
	if waited := one.Waiting(); waited > 0 {
		c.waited.Observe(waited.Seconds())
	}
	if one.Throttled > 0 {
		c.throttled.Observe(one.Throttled.Seconds())
	}
}

// set sets the containers that exist.
func (d *delays) set(containers []control.Limited) {
	d.monitor.Set(d.replace(containers)) // without mu, because the monitor calls add
}

// replace replaces the containers, and returns their groups.
func (d *delays) replace(containers []control.Limited) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := make(map[string]containerDelays, len(containers))
	groups, used := make([]string, len(containers)), map[[3]string]bool{}
	for i := range containers {
		group := containers[i].Path
		c, known := d.byGroup[group]
		if !known {
			c.labels = [3]string(labelValues(&containers[i]))
			c.waited, c.throttled = d.waited.WithLabelValues(c.labels[:]...), d.throttled.WithLabelValues(c.labels[:]...)
		}
		now[group], groups[i], used[c.labels] = c, group, true
	}
	for _, before := range d.byGroup {
		if !used[before.labels] { // else it has been restarted, or goes on
			d.waited.DeleteLabelValues(before.labels[:]...)
			d.throttled.DeleteLabelValues(before.labels[:]...)
		}
	}
	d.byGroup = now
	return groups
}

// traced returns what the threads of a container have waited so far, if that is traced.
func (d *delays) traced(group string) (waited schedtrace.Waited, known bool) {
	if d == nil {
		return waited, false
	}
	return d.monitor.Waited(group)
}

// collect sends what tracing costs.
func (d *delays) collect(out chan<- prometheus.Metric) {
	cost, running := d.monitor.Cost()
	gauge(out, "trace_running", "1 while the delays of containers are traced.")(oneIf(running))
	used := counter(out, "trace_cpu_seconds_total", "CPU time that tracing has used, in the kernel (estimated from one run of a program in 64) and in the agent.", "where")
	used(cost.KernelTime.Seconds(), "kernel")
	used(cost.HandleTime.Seconds(), "agent")
	counter(out, "trace_lost_events_total", "Events that the kernel has dropped, because they came faster than they were read.")(float64(cost.Lost))
}

// traceAgainAfter is how long nothing is traced after it cost too much, or failed.
const traceAgainAfter = 10 * time.Minute

// run traces the delays of containers until the context ends.
func (d *delays) run(ctx context.Context, dedup *logdedup.Log) {
	for ctx.Err() == nil {
		dedup.Clear("trace")
		err := d.monitor.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errors.ErrUnsupported) {
			dedup.WarnOrClear("trace", "the delays of containers are not traced", err)
			return
		}
		dedup.WarnOrClear("trace", fmt.Sprintf("the delays of containers are not traced for %v", traceAgainAfter), err)
		sleep.For(ctx, traceAgainAfter)
	}
}
