package agent

import (
	"bytes"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/sampler"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/test/need"
)

// TestPrometheus lets a real Prometheus scrape the agent, with the settings of deploy/prometheus and
// of docs/monitoring.md, and asks it for the native histogram of demand.
func TestPrometheus(t *testing.T) {
	need.This(t, "a Prometheus")
	program, err := filepath.Abs("../bin/prometheus")
	must.Do(t, err)
	if _, err := os.Stat(program); err != nil {
		t.Skip("needs a Prometheus: make bin/prometheus")
	}
	n := newQuietNode(t, colocation.Config{Threshold: 0.65, Floor: 0.5, Objective: time.Millisecond})
	const ms = time.Millisecond
	for i := range minRecent { // a tenth of the periods want four times as much
		usage := 2 * ms
		if i%10 == 0 {
			usage *= 4
		}
		n.meters.add([]sampler.Sample{{Group: n.group, Sample: trace.Sample{At: time.Duration(i) * 100 * ms, Interval: 100 * ms, Usage: usage, Periods: 1,
			Limits: bandwidth.Limits{Quota: 10 * ms, Period: 100 * ms}}}})
	}
	n.Listen = "127.0.0.1:0"
	s, err := newServer(n.agent)
	must.Do(t, err)
	go s.http.Serve(s.listener) //nolint:errcheck // until the test ends
	t.Cleanup(func() { must.Do(t, s.http.Close()) })

	server := startPrometheus(t, program, s.address)
	const demand = `pinfold_container_cpu_demand_cores{namespace="default",pod="busy",container="app"}`
	ask := func(query string) model.Vector {
		v, _, err := server.Query(t.Context(), query, time.Now())
		found, ok := v.(model.Vector)
		if err != nil || !ok {
			t.Logf("%s: %v, %v", query, v, err) // it is not ready yet
		}
		return found
	}
	var found model.Vector
	for deadline := time.Now().Add(time.Minute); len(found) == 0 && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		found = ask(demand)
	}
	if len(found) != 1 || found[0].Histogram == nil || found[0].Histogram.Count != minRecent {
		t.Fatalf("found %v, want a native histogram of %d periods", found, minRecent)
	}
	for quantile, want := range map[string]float64{"0.5": .02, "0.95": .08} {
		if got := ask("histogram_quantile(" + quantile + ", " + demand + ")"); len(got) != 1 || math.Abs(float64(got[0].Value)/want-1) > .1 {
			t.Errorf("the quantile %s is %v, want %v", quantile, got, want)
		}
	}
}

// startPrometheus starts a Prometheus that stores native histograms, and scrapes an address each
// second, otherwise as in deploy/prometheus.
func startPrometheus(t *testing.T, program, address string) promv1.API {
	t.Helper()
	text, err := os.ReadFile("../deploy/prometheus/scrape.yaml")
	must.Do(t, err)
	var config struct {
		Jobs []map[string]any `json:"scrape_configs"`
	}
	must.Do(t, yaml.Unmarshal(text, &config))
	config.Jobs = config.Jobs[:1] // the agents', without the scheduler's
	job := config.Jobs[0]
	for _, field := range []string{"scheme", "authorization", "tls_config", "kubernetes_sd_configs", "relabel_configs"} {
		delete(job, field)
	}
	job["scrape_native_histograms"], job["scrape_interval"], job["static_configs"] = true, "1s", []any{map[string]any{"targets": []string{address}}}
	text, err = yaml.Marshal(config)
	must.Do(t, err)
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "prometheus.yaml"), text, 0o600))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(t, err)
	at := listener.Addr().String()
	must.Do(t, listener.Close())
	var log bytes.Buffer
	server := exec.Command(program, "--config.file="+filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+at)
	server.Stdout, server.Stderr, server.SysProcAttr = &log, &log, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(t, server.Start())
	t.Cleanup(func() {
		if _, _ = server.Process.Kill(), server.Wait(); t.Failed() {
			t.Log(log.String())
		}
	})
	client, err := api.NewClient(api.Config{Address: "http://" + at, RoundTripper: http.DefaultTransport})
	must.Do(t, err)
	return promv1.NewAPI(client)
}
