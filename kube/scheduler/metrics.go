package scheduler

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"

	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/kube/scheduler/agents"
)

// metrics are the metrics of a scheduler, in addition to those of kube-scheduler, with which they are
// served. They are about the pods that ask for CPUs. Only the replica that leads counts anything.
type metrics struct {
	shared  *shared
	nodes   corelisters.NodeLister
	bound   *prometheus.CounterVec // pods, by who allocates and policy
	refused *prometheus.CounterVec // scheduling attempts, by reason
	chosen  prometheus.Histogram   // seconds
	// The quality of the CPUs of static pods, summed over these pods.
	cpus, numaNodes, splitCores, llcs prometheus.Counter
}

// metricPrefix is that of all names.
const metricPrefix = "pinfold_scheduler_"

func newMetrics(s *shared, nodes corelisters.NodeLister) *metrics {
	options := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: metricPrefix + name, Help: help}
	}
	return &metrics{
		shared: s, nodes: nodes,
		bound: prometheus.NewCounterVec(options("bound_pods_total",
			"Pods that ask for CPUs and were bound, by who gives them CPUs (the scheduler, or the node's agent), and by the policy of the scheduler's."),
			[]string{"allocator", "policy"}),
		refused: prometheus.NewCounterVec(options("refusals_total",
			"Attempts to schedule a pod in which the plugin refused at least one node for this reason."), []string{"reason"}),
		chosen: prometheus.NewHistogram(prometheus.HistogramOpts{Name: metricPrefix + "choice_duration_seconds",
			Help: "How long it took to choose a pod's CPUs on its node, and to write them down.", Buckets: prometheus.ExponentialBuckets(16e-6, 4, 8)}),
		cpus:       prometheus.NewCounter(options("static_cpus_total", "CPUs given to static pods.")),
		numaNodes:  prometheus.NewCounter(options("static_numa_nodes_total", "NUMA nodes of the CPUs of each static pod, summed over these pods.")),
		splitCores: prometheus.NewCounter(options("static_split_cores_total", "Cores of which a static pod got only some threads, summed over these pods.")),
		llcs:       prometheus.NewCounter(options("static_llcs_total", "Last-level caches of the CPUs of each static pod, summed over these pods.")),
	}
}

// bind counts a pod that was bound. The reservation is zero if its node's agent allocates.
func (m *metrics) bind(r reservation) {
	if r.policy == "" {
		m.bound.WithLabelValues(nodetopology.AllocatorNode, "").Inc()
		return
	}
	m.bound.WithLabelValues("scheduler", string(r.policy)).Inc()
	if r.policy == placement.Static {
		m.cpus.Add(float64(r.placed.CPUs.Len()))
		m.numaNodes.Add(float64(r.placed.Quality.NUMANodes))
		m.splitCores.Add(float64(r.placed.Quality.SplitCores))
		m.llcs.Add(float64(r.placed.Quality.LLCs))
	}
}

// refuse counts an attempt.
func (m *metrics) refuse(kind shortageKind) { m.refused.WithLabelValues(kind.reason()).Inc() }

// choose counts a decision that began at a time.
func (m *metrics) choose(begun time.Time) { m.chosen.Observe(time.Since(begun).Seconds()) }

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, out) }

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range []prometheus.Collector{m.bound, m.refused, m.chosen, m.cpus, m.numaNodes, m.splitCores, m.llcs} {
		c.Collect(out)
	}
	gauge := func(name, help string, labels ...string) func(value int, values ...string) {
		desc := prometheus.NewDesc(metricPrefix+name, help, labels, nil)
		return func(value int, values ...string) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), values...)
		}
	}
	pods, longest := m.shared.waiting.Wait()
	gauge("waiting_pods", "Pods that the plugin has refused and that wait.")(pods)
	gauge("longest_wait_seconds", "How long ago the plugin first refused the pod that has waited longest; 0 if none waits.")(int(longest.Seconds()))
	count := map[string]int{}
	for _, name := range m.shared.reports.Names() {
		if report := m.shared.reports.Named(name); report != nil {
			count[m.agentState(report)]++
		}
	}
	nodes := gauge("agents", "Nodes that have reported their CPUs, by the state of their agents.", "state")
	for _, state := range []string{agentReports, agentSilent, agentDown, agentObserves, agentFails, agentUnusable} {
		nodes(count[state], state)
	}
}

// The states of agents.
const (
	agentReports  = "reports"
	agentSilent   = "silent"
	agentDown     = "down" // silent, and its node is not ready
	agentObserves = "observes"
	agentFails    = "fails"    // it cannot enforce anything
	agentUnusable = "unusable" // its topology cannot be read
)

func (m *metrics) agentState(r *agents.Report) string {
	switch {
	case !r.Usable():
		return agentUnusable
	case !r.Silent.IsZero() && m.notReady(r.Name):
		return agentDown
	case !r.Silent.IsZero():
		return agentSilent
	case r.State.AgentHealth == nodetopology.AgentObserves:
		return agentObserves
	case r.State.AgentHealth != nodetopology.AgentHealthy:
		return agentFails
	}
	return agentReports
}

// notReady reports whether a node's kubelet says that it is not ready, or says nothing any more.
func (m *metrics) notReady(name string) bool {
	node, err := m.nodes.Get(name)
	return err == nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}
