package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/nodetopology"
)

// metrics describe what [engine.figures] holds.
type metrics struct {
	engine                                                *engine
	cpus, containers, numaNodes, splitCores, llcs         *prometheus.Desc
	conflicts, problems, failed, holding, runtime, writes *prometheus.Desc
	foreign, left, rounds, rivals                         *prometheus.Desc
}

func newMetrics(e *engine) *metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("pinfold_"+name, help, labels, nil)
	}
	return &metrics{
		engine:     e,
		cpus:       desc("cpus", "Online CPUs that are exclusive to one pod each, and that are shared.", "kind"),
		containers: desc("containers", "Running containers by what kind of CPUs they live on.", "home"),
		numaNodes:  desc("exclusive_numa_nodes", "NUMA nodes that containers with exclusive CPUs use, summed over these containers."),
		splitCores: desc("exclusive_split_cores", "Cores of which a container with exclusive CPUs has some threads only, summed over these containers."),
		llcs:       desc("exclusive_llcs", "Last-level caches that containers with exclusive CPUs use, summed over these containers."),
		conflicts:  desc("conflicts", "Pods that lost their CPUs to a pod bound earlier."),
		problems:   desc("problems", "What cannot be done as it was asked for, by the reason that events and the node's condition give.", "reason"),
		failed:     desc("failed_groups", "Control groups that could not be given what they should have in the last round."),
		holding:    desc("holding", "1 while nothing is changed because too little is known."),
		runtime:    desc("runtime_connected", "1 while the container runtime asks by NRI."),
		writes:     desc("cgroup_writes_total", "Writes to files of control groups.", "file", "result"),
		foreign:    desc("foreign_writes_undone_total", "Settings changed by somebody else and put back.", "setting"),
		left:       desc("foreign_writes_left_total", "Settings changed by somebody else and left to them.", "setting"),
		rivals:     desc("nri_conflicts_total", "Containers that another NRI plugin sets, too."),
		rounds:     desc("reconciles_total", "Rounds in which all control groups were looked at."),
	}
}

// Describe implements [prometheus.Collector].
func (m *metrics) Describe(out chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, out) }

// Collect implements [prometheus.Collector].
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	m.engine.mu.Lock()
	defer m.engine.mu.Unlock()
	f := &m.engine.figures
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	s := &f.summary
	gauge(m.cpus, s.Exclusive.Len(), "exclusive")
	gauge(m.cpus, s.Shared.Len(), "shared")
	for _, home := range []nodeplan.Home{nodeplan.HomeExclusive, nodeplan.HomeCoreSet, nodeplan.HomeShared, nodeplan.HomeUnbound} {
		gauge(m.containers, s.Containers[home], string(home))
	}
	gauge(m.numaNodes, s.Quality.NUMANodes)
	gauge(m.splitCores, s.Quality.SplitCores)
	gauge(m.llcs, s.Quality.LLCs)
	gauge(m.conflicts, s.Conflicts)
	reasons := map[string]int{}
	for i := range s.Problems {
		reasons[s.Problems[i].Reason]++
	}
	for reason, n := range reasons {
		gauge(m.problems, n, reason)
	}
	gauge(m.failed, f.failed)
	gauge(m.holding, oneIf(f.holding))
	gauge(m.runtime, oneIf(f.runtime))
	counter(m.rounds, f.rounds)
	counter(m.rivals, f.rivals)
	for _, field := range []control.Field{control.FieldCPUs, control.FieldQuota, control.FieldPeriod, control.FieldBurst, control.FieldIdle} {
		counter(m.foreign, f.foreign[field], string(field))
	}
	for _, field := range []control.Field{control.FieldQuota, control.FieldPeriod, control.FieldBurst} {
		counter(m.left, f.left[field], string(field))
	}
	for file, n := range m.engine.kernel.groups.Writes() {
		counter(m.writes, n.Done, string(file), "done")
		counter(m.writes, n.Refused, string(file), "refused")
	}
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// server serves metrics and health.
type server struct {
	http     *http.Server
	listener net.Listener
	// observe takes how long a round took.
	observe func(time.Duration)
	// reload keeps the certificate up to date until the context ends.
	reload func(context.Context)
}

// newRegistry has all metrics of the agent's own; those of rounds are observed.
func newRegistry(e *engine) (*prometheus.Registry, prometheus.Observer) {
	registry := prometheus.NewRegistry()
	duration := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "pinfold_reconcile_duration_seconds",
		Help: "How long a round takes, in which all control groups are looked at.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)})
	registry.MustRegister(newMetrics(e), newContainerMetrics(e), duration)
	return registry, duration
}

// newServer listens where the options say; at "" it serves nothing.
func newServer(o Options, e *engine) (*server, error) {
	registry, duration := newRegistry(e)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	s := &server{observe: func(d time.Duration) { duration.Observe(d.Seconds()) }, reload: func(context.Context) {}}
	if o.Listen == "" {
		return s, nil
	}
	metrics := promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	s.http = &http.Server{ReadHeaderTimeout: 5 * time.Second, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)}
	if o.Secure != nil {
		var err error
		if metrics, err = o.Secure.guarded(metrics); err != nil {
			return nil, err
		}
		if s.http.TLSConfig, s.reload, err = o.Secure.serving(); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, e.alive(o.Period)) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, e.ready()) })
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w; --listen names another address", err)
	}
	s.http.Handler, s.listener = mux, listener
	if at, ok := listener.Addr().(*net.TCPAddr); ok && o.Secure == nil && !at.IP.IsLoopback() {
		o.Log.Warn("everybody who reaches this node can read the metrics, which name its pods: serve them with --metrics-secure", "listen", o.Listen)
	}
	return s, nil
}

func answer(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// serve serves until the context ends.
func (s *server) serve(ctx context.Context) error {
	if s.listener == nil {
		return nil
	}
	stop := context.AfterFunc(ctx, func() { _ = s.http.Close() })
	defer stop()
	go s.reload(ctx)
	serve := s.http.Serve
	if s.http.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve metrics: %w", err)
	}
	return nil
}

// alive says whether rounds are still done: a few periods without one are too many.
// What keeps a round from its work is no reason to restart the agent.
func (e *engine) alive(period time.Duration) error {
	if since := e.now().Sub(time.Unix(0, e.looped.Load())); since > 3*period+time.Minute {
		return fmt.Errorf("the last round ended %v ago", since.Round(time.Second))
	}
	return nil
}

// ready says whether what was decided is enforced.
func (e *engine) ready() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.figures.rounds == 0:
		return errors.New("no round has been done yet")
	case e.figures.holding:
		return errors.New("nothing is changed for now: see the log or the node's condition " + string(nodetopology.BindingCondition))
	}
	return nil
}

var _ prometheus.Collector = (*metrics)(nil)
