package monitoring

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/promqltest"
)

// TestFleetQueries runs the queries of 'pinfold advise --prometheus' in Prometheus' engine, on counters as
// kubelets of several ages have them: for all CPUs together, for each CPU, for both, and read by two servers.
func TestFleetQueries(t *testing.T) {
	t.Run("labels", func(t *testing.T) { fleetQueries(t, "queries.txt", "", 0) })
	t.Run("renamed labels", func(t *testing.T) { fleetQueries(t, "renamed.txt", "exported_", 1) })
}

// fleetQueries runs the queries of a file. The labels of series have a prefix, and renamed is how many series
// say so.
func fleetQueries(t *testing.T, file, prefix string, renamed int) {
	text, err := os.ReadFile("../../cmd/pinfold/internal/fleet/testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	const limits = "kube_pod_container_resource_limits"
	series := "load 1m\n"
	for _, labels := range []string{
		`pod="total",cpu="total"`, `pod="each",cpu="cpu00"`, `pod="each",cpu="cpu01"`, `pod="both",cpu="total"`, `pod="both",cpu="cpu00"`,
		`pod="plain"`, `pod="twice",cpu="total",replica="a"`, `pod="twice",cpu="total",replica="b"`,
	} {
		series += `container_cpu_usage_seconds_total{namespace="shop",container="app",` + labels + "} 0+6x60\n"
	}
	for _, pod := range []string{"total", "each", "both", "plain", "twice"} {
		labels := `{namespace="shop",container="app",pod="` + pod + `"`
		if pod != "plain" {
			series += limits + labels + `,resource="cpu"} 2x60` + "\n"
		}
		series += "container_cpu_cfs_periods_total" + labels + "} 0+300x60\ncontainer_cpu_cfs_throttled_periods_total" + labels + "} 0+30x60\ncontainer_cpu_cfs_burst_periods_total" + labels + "} 0x60\n" +
			"container_start_time_seconds" + labels + "} 5x60\nkube_pod_container_resource_requests" + labels + `,resource="cpu"} 1x60` + "\n" +
			`kube_pod_status_phase{namespace="shop",pod="` + pod + `",phase="Running"} 1x60` + "\n" +
			`kube_pod_info{namespace="shop",pod="` + pod + `",node="n1",host_ip="192.0.2.1"} 1x60` + "\n" + `kube_pod_container_info` + labels + "} 1x60\n" + `kube_pod_owner{namespace="shop",pod="` + pod + `",owner_kind="ReplicaSet",owner_name="web-5d4f8c7b9d"} 1x60` + "\n"
	}
	series += `container_spec_cpu_quota{namespace="shop",container="app",pod="plain"} 50000x60` + "\n" +
		`container_spec_cpu_period{namespace="shop",container="app",pod="plain"} 100000x60` + "\n" +
		`kube_replicaset_owner{namespace="shop",replicaset="web-5d4f8c7b9d",owner_kind="Deployment",owner_name="web"} 1x60` + "\n" +
		`kube_job_owner{namespace="shop",job_name="report-1",owner_kind="CronJob",owner_name="report"} 1x60` + "\n" +
		`container_cpu_cfs_periods_total{namespace="shop",pod="total",id="/kubepods/pod1"} 0+300x60` + "\n" +
		`kube_pod_info{namespace="shop",pod="ended",node="n1"} 1x60` + "\n" + `kube_pod_status_phase{namespace="shop",pod="ended",phase="Running"} 0x60` + "\n" +
		limits + `{namespace="other",container="app",pod="x",resource="cpu"} 2x60` + "\n" +
		`container_cpu_usage_seconds_total{namespace="other",container="app",pod="x",cpu="total"} 0+6x60` + "\n" +
		`container_cpu_usage_seconds_total{namespace="shop",container="POD",pod="total",cpu="total"} 0+6x60` + "\n" +
		`container_cpu_usage_seconds_total{id="/",cpu="total"} 0+6x60` + "\n"
	series += `kube_pod_container_info{namespace="shop",container="app",pod="free"} 1x60` + "\n"
	series += `kube_node_status_allocatable{node="n1",resource="cpu",unit="core"} 8x60` + "\n" + `kube_node_status_allocatable{node="n1",resource="memory",unit="byte"} 8000x60` + "\n"
	for _, of := range []string{"needed_limit", "wanted"} {
		series += "pinfold_container_cpu_" + of + `_cores{namespace="shop",container="app",pod="total"} {{schema:3 count:10 sum:5 buckets:[4 6] offset:-8}}+{{schema:3 count:10 sum:5 buckets:[4 6] offset:-8}}x60` + "\n"
	}
	for _, name := range []string{"namespace", "pod", "container", "node"} {
		series = strings.NewReplacer("{"+name+"=", "{"+prefix+name+"=", ","+name+"=", ","+prefix+name+"=").Replace(series)
	}
	storage := promqltest.LoadedStorage(t, series)
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000)
	queries := strings.Split(strings.TrimSpace(string(text)), "\n")
	names := []string{"renamed", "renamed, too", "renamed, of agents", "agents", "clusters", "sizes", "replica sets", "jobs", "owners", "unlimited", "of pods", "requests",
		"bursts", "limit", "period", "periods", "quota", "started", "throttled", "time", "usage", "needed", "wanted", "nodes", "cpus"}
	if len(queries) != len(names) {
		t.Fatalf("%d queries, want those for %v", len(queries), names)
	}
	counts := map[string]int{"renamed": renamed, "renamed, too": renamed, "renamed, of agents": renamed, "needed": 1, "wanted": 1, "agents": 1, "limit": 4, "quota": 1, "clusters": 1, "sizes": 1, "replica sets": 1, "jobs": 1, "unlimited": 2, "of pods": 1, "period": 1, "cpus": 1} // of others: one of each pod
	got := map[string]promql.Vector{}
	for i, name := range names {
		query, err := engine.NewInstantQuery(t.Context(), storage, nil, queries[i], time.Unix(3600, 0))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		result := query.Exec(t.Context())
		if got[name], err = result.Vector(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if warnings, _ := result.Warnings.AsStrings(queries[i], 0, 0); len(warnings) > 0 { // the command takes them for errors
			t.Errorf("%s: %v", name, warnings)
		}
	}
	if v := got["sizes"]; len(v) != 1 || v[0].F != 5 {
		t.Errorf("sizes %v, want 5 containers", v)
	}
	for _, name := range names {
		want, known := counts[name]
		if !known {
			want = 5
		}
		if len(got[name]) != want {
			t.Errorf("%s: %v, want %d", name, got[name], want)
		}
	}
	if v := got["cpus"]; len(v) != 1 || v[0].F != 8 || v[0].Metric.Get(prefix+"node") != "n1" {
		t.Errorf("CPUs of nodes: %v", v)
	}
	for _, name := range []string{"needed", "wanted"} {
		if v := got[name]; len(v) != 1 || v[0].H == nil || v[0].H.Count < 500 || v[0].H.Schema != 3 {
			t.Errorf("%s: %v", name, v)
		}
	}
	for _, sample := range got["time"] {
		if sample.F != 3600 {
			t.Errorf("%s was read at %v", sample.Metric, sample.F)
		}
	}
	for _, sample := range got["usage"] {
		want := 360.
		if sample.Metric.Get(prefix+"pod") == "each" {
			want = 720
		}
		if sample.F != want {
			t.Errorf("usage of %s: %v, want %v", sample.Metric, sample.F, want)
		}
	}
	for _, sample := range got["limit"] {
		if sample.F != 2 {
			t.Errorf("limit of %s: %v, want 2", sample.Metric, sample.F)
		}
	}
}
