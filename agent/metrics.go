package agent

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"pinfold.dev/pinfold/agent/batch"
	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/linux/cgroup/cgroupstat"
)

// newRegistry returns a registry with the agent's metrics, and the observer of the rounds'
// duration.
func newRegistry(a *agent) (*prometheus.Registry, prometheus.Observer) {
	registry := prometheus.NewRegistry()
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pinfold_reconcile_duration_seconds",
		Help: "Duration of a round, which checks all control groups.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)})
	registry.MustRegister(collector{a}, duration)
	if a.Batch.Objective > 0 {
		registry.MustRegister(a.onlineWait)
	}
	if a.delays != nil {
		registry.MustRegister(a.delays.waited, a.delays.throttled)
	}
	return registry, duration
}

// collector collects the metrics of an agent. Those of a container disappear when it ends.
type collector struct{ agent *agent }

// Describe implements [prometheus.Collector].
func (c collector) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, out) }

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) {
	a := c.agent
	var status control.Status
	a.with(func(*control.Control) { status = a.status })
	limited := status.Limited()
	collectNode(out, a.reports.get(), a.kernel.groups)
	collectMechanisms(out, status.Batch.Mechanisms)
	collectBatch(out, &status.Batch, a.kernel.groups)
	collectLimits(out, limited)
	collectPressure(out, a.usage.Pressure, status.Containers)
	if a.Priority.Wants(colocation.SchedExt) {
		collectScheduler(out, a.scheduler.Status())
	}
	if a.delays != nil {
		a.delays.collect(out)
	}
	if a.waits != nil {
		a.waits.collect(out)
	}
	a.meters.collect(out, limited)
}

// family sends one metric of a family, with the values of its labels.
type family func(value float64, labels ...string)

func newFamily(out chan<- prometheus.Metric, kind prometheus.ValueType, name, help string, labels ...string) family {
	desc := prometheus.NewDesc("pinfold_"+name, help, labels, nil)
	return func(value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	}
}

func gauge(out chan<- prometheus.Metric, name, help string, labels ...string) family {
	return newFamily(out, prometheus.GaugeValue, name, help, labels...)
}

func counter(out chan<- prometheus.Metric, name, help string, labels ...string) family {
	return newFamily(out, prometheus.CounterValue, name, help, labels...)
}

// collectNode sends the metrics of the node and the agent.
func collectNode(out chan<- prometheus.Metric, stats stats, groups *cgroup.FS) {
	s := &stats.summary
	if s.Containers != nil { // else no round has seen the node
		collectSummary(out, s)
	}
	problems := gauge(out, "problems", "What is wrong with the node, by the reason in its condition.", "reason")
	reasons := map[string]int{}
	for i := range s.Problems {
		reasons[s.Problems[i].Reason]++
	}
	for reason, n := range reasons {
		problems(float64(n), reason)
	}
	warnings := gauge(out, "pod_warnings", "Requests of pods that cannot be satisfied as they were made, by the reason in the pod's event; "+
		"without a pod, those of all pods together.", "namespace", "pod", "reason")
	ofPods := map[[3]string]int{}
	for _, n := range s.Warnings {
		labels := [3]string{"", "", n.Reason}
		if n.Pod != nil {
			labels[0], labels[1] = n.Pod.Namespace, n.Pod.Name
		}
		ofPods[labels]++
	}
	for labels, n := range ofPods {
		warnings(float64(n), labels[:]...)
	}
	pending := gauge(out, "pending_groups", "Control groups that would be changed by an agent that enforces, by the file; only while the agent observes.", "file")
	files := map[cgroup.File]int{}
	for _, p := range stats.pending {
		for _, f := range p.Files {
			files[f.File]++
		}
	}
	for file, n := range files {
		pending(float64(n), string(file))
	}
	gauge(out, "failed_groups", "Control groups whose settings could not be applied in the last round.")(float64(stats.failed))
	gauge(out, "holding", "1 while nothing is changed because required input is missing.")(oneIf(stats.holding))
	gauge(out, "runtime_connected", "1 while the agent is connected to the container runtime by NRI.")(oneIf(stats.connected))
	counter(out, "reconciles_total", "Rounds, each of which checks all control groups.")(float64(stats.rounds))
	counter(out, "moves_total", "Running pods that were moved to better CPUs.")(float64(stats.moves))
	counter(out, "nri_conflicts_total", "Containers that another NRI plugin sets, too.")(float64(stats.nriConflicts))
	undone := counter(out, "foreign_writes_undone_total", "Settings that another program changed and the agent restored.", "setting")
	for _, field := range []control.Field{control.FieldCPUs, control.FieldQuota, control.FieldPeriod, control.FieldBurst, control.FieldIdle,
		control.FieldBVT, control.FieldPartition} {
		undone(float64(stats.undone[field]), string(field))
	}
	left := counter(out, "foreign_writes_left_total", "Settings that another program changed and the agent left as they are.", "setting")
	for _, field := range []control.Field{control.FieldQuota, control.FieldPeriod, control.FieldBurst} {
		left(float64(stats.left[field]), string(field))
	}
	writes := counter(out, "cgroup_writes_total", "Writes to files of control groups.", "file", "result")
	for file, n := range groups.Writes() {
		writes(float64(n.Done), string(file), "done")
		writes(float64(n.Refused), string(file), "refused")
	}
}

// collectSummary sends what the last round has seen.
func collectSummary(out chan<- prometheus.Metric, s *control.Summary) {
	cpus := gauge(out, "cpus", "Online CPUs that are exclusive to one pod each, and that are shared.", "kind")
	cpus(float64(s.Exclusive.Len()), "exclusive")
	cpus(float64(s.Shared.Len()), "shared")
	containers := gauge(out, "containers", "Running containers by the kind of CPUs that they run on.", "home")
	for _, home := range []nodeplan.Home{nodeplan.HomeExclusive, nodeplan.HomeCoreSet, nodeplan.HomeShared, nodeplan.HomeUnbound} {
		containers(float64(s.Containers[home]), string(home))
	}
	gauge(out, "exclusive_numa_nodes", "NUMA nodes that containers with exclusive CPUs use, summed over these containers.")(float64(s.Quality.NUMANodes))
	gauge(out, "exclusive_split_cores", "Cores of which a container with exclusive CPUs has only some threads, summed over these containers.")(
		float64(s.Quality.SplitCores))
	gauge(out, "exclusive_llcs", "Last-level caches that containers with exclusive CPUs use, summed over these containers.")(float64(s.Quality.LLCs))
	gauge(out, "pods_lost_cpus", "Pods that have lost their CPUs, as their events say.")(float64(s.Lost))
}

// collectMechanisms sends which mechanisms put batch pods behind all others.
func collectMechanisms(out chan<- prometheus.Metric, chosen colocation.Choice) {
	used := gauge(out, "batch_mechanism", "1 for the mechanisms that put batch pods behind all others on this node.", "mechanism")
	for _, m := range chosen.Use {
		used(1, string(m))
	}
}

// collectBatch sends the metrics of batch pods, if they are bounded.
func collectBatch(out chan<- prometheus.Metric, b *control.Batch, groups *cgroup.FS) {
	decision := b.Decision
	if decision.Budget == 0 {
		return
	}
	gauge(out, "batch_budget_cpus", "What all batch pods together may use, in CPUs.")(float64(decision.Budget))
	gauge(out, "batch_capacity_cpus", "What the node offers to requests of batch pods, in CPUs.")(float64(decision.Capacity))
	gauge(out, "batch_threshold_ratio", "Share of the shared CPUs that all work together should use: less than --batch-percent while "+
		"online pods wait too long for CPUs.")(float64(decision.Threshold))
	if stat, err := cgroupstat.Read(groups, b.Tier); err == nil { // else the next round reports the error
		counter(out, "batch_cpu_seconds_total", "CPU time that all pods of QoS class BestEffort together have used.")(stat.Usage.Seconds())
	}
}

// collectScheduler sends the metrics of the scheduler for batch pods.
func collectScheduler(out chan<- prometheus.Metric, s batch.Status) {
	gauge(out, "batch_scheduler_running", "1 while the kernel runs the scheduler for batch pods.")(oneIf(s.Running))
	counter(out, "batch_scheduler_ended_total", "How often the kernel has ended the scheduler.")(float64(s.Ended))
	gauge(out, "batch_scheduler_gap_seconds", "For how long there was no scheduler when the agent was last replaced.")(s.Gap.Seconds())
	counter(out, "batch_pods_starved_total", "How often a batch pod was given to the fair class because other pods left it no CPU.")(float64(s.Rescued))
	if !s.Running {
		return
	}
	gauge(out, "batch_queued_threads", "Threads of batch pods that wait for a CPU.")(float64(s.Stats.Queued))
	counter(out, "batch_expelled_total", "How often batch work was interrupted because other work began to run on its core.")(float64(s.Stats.Expelled))
	counter(out, "batch_yielded_total", "How often batch work gave up a CPU because other work waited elsewhere.")(float64(s.Stats.Yielded))
	counter(out, "batch_overdrawn_cpu_seconds_total", "CPU time of threads that had waited too long, in spite of the budget and of other work on the core.")(s.Stats.Overdrawn.Seconds())
	used := counter(out, "batch_pod_cpu_seconds_total", "CPU time of a batch pod in its scheduler.", "namespace", "pod")
	waited := counter(out, "batch_pod_run_delay_seconds_total", "How long threads of a batch pod waited for CPUs, before they ran.", "namespace", "pod")
	waiting := gauge(out, "batch_pod_waiting_seconds", "For how long the thread of a batch pod waits that has waited longest.", "namespace", "pod")
	overdue := counter(out, "batch_pod_overdue_total", "How often a thread of a batch pod ran because it had waited for --batch-max-wait.", "namespace", "pod")
	for _, pod := range s.Pods {
		labels := []string{pod.Namespace, pod.Name}
		used(pod.Used.Seconds(), labels...)
		waited(pod.Waited.Seconds(), labels...)
		waiting(pod.Waiting.Seconds(), labels...)
		overdue(float64(pod.Overdue), labels...)
	}
}

func oneIf(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// containerLabels returns the labels of metrics of containers, followed by more.
func containerLabels(more ...string) []string {
	return append([]string{"namespace", "pod", "container"}, more...)
}

func labelValues(l *control.Limited, more ...string) []string {
	return append([]string{l.Namespace, l.Name, l.Ref.Container}, more...)
}

// collectLimits sends the limits and the present bandwidth of containers.
func collectLimits(out chan<- prometheus.Metric, limited []control.Limited) {
	labels := containerLabels()
	limit := gauge(out, "container_cpu_limit_cores", "The limit, in CPUs.", labels...)
	quota := gauge(out, "container_cpu_quota_cores", "The present quota of the control group, in CPUs; above the limit while it is raised.", labels...)
	period := gauge(out, "container_cpu_period_seconds", "The present period of the control group.", labels...)
	burst := gauge(out, "container_cpu_burst_seconds", "The present burst of the control group: the CPU time that can be saved up.", labels...)
	raisedSince := gauge(out, "container_cpu_quota_raised_since_timestamp_seconds",
		"When the quota was raised above the limit; exists only while it is raised.", labels...)
	cores := func(quota, period time.Duration) float64 { return float64(quota) / float64(period) }
	for i := range limited {
		l := &limited[i]
		of := labelValues(l)
		limit(cores(l.Base.Quota, l.Base.Period), of...)
		if l.Present.Period > 0 { // it has been read
			period(l.Present.Period.Seconds(), of...)
			burst(l.Present.Burst.Seconds(), of...)
		}
		if l.Present.Quota > 0 {
			quota(cores(l.Present.Quota, l.Present.Period), of...)
		}
		if l.Raise.Quota > 0 {
			raisedSince(float64(l.Raise.Since.UnixMilli())/1000, of...)
		}
	}
}

// collectPressure sends how long containers waited for CPUs, if the kernel measures that.
func collectPressure(out chan<- prometheus.Metric, pressure func(group string) (cgroupstat.Pressure, error), containers []control.Limited) {
	labels := containerLabels()
	total := counter(out, "container_cpu_pressure_seconds_total",
		"Time in which at least one thread of the container waited for CPU time, also while throttled (PSI, some).", labels...)
	recent := gauge(out, "container_cpu_pressure_ratio", "Part of the last ten seconds in which at least one thread of the container waited for CPU time.", labels...)
	for i := range containers {
		p, err := pressure(containers[i].Path)
		if errors.Is(err, errors.ErrUnsupported) {
			return
		}
		if err == nil { // else it has ended
			of := labelValues(&containers[i])
			total(p.Total.Seconds(), of...)
			recent(p.Recent, of...)
		}
	}
}
