package monitoring

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb"
)

// BenchmarkFleet measures 'pinfold advise --prometheus' with a real server that has a week of counters of
// 5,000 containers, read every two minutes: how long it takes, and how much memory the command and the server
// have used at most. Writing the counters takes some minutes before that. It needs the programs in bin/.
func BenchmarkFleet(b *testing.B) {
	const containers = 5000
	data := filepath.Join(b.TempDir(), "data")
	begin := time.Now()
	samples := writeFleet(b, data, containers, 7*24*time.Hour, 2*time.Minute)
	b.Logf("%d samples written in %v", samples, time.Since(begin).Round(time.Second))
	server, url := startServer(b, data)
	var text []byte
	var most int64
	for b.Loop() {
		command := exec.CommandContext(b.Context(), "../../bin/pinfold", "advise", "--prometheus", url, "--since", "7d", "--html", filepath.Join(b.TempDir(), "fleet.html"), "--force", "-o", "csv")
		var out bytes.Buffer
		command.Stdout, command.Stderr = &out, os.Stderr
		if err := command.Run(); err != nil {
			b.Fatal(err)
		}
		text = out.Bytes()
		most = max(most, command.ProcessState.SysUsage().(*syscall.Rusage).Maxrss)
	}
	if rows := bytes.Count(text, []byte("\n")) - 1; rows != containers/2 { // two pods each
		b.Errorf("%d workloads: %s", rows, text[:min(len(text), 1000)])
	}
	b.ReportMetric(float64(most)/1024, "command-MiB")
	b.ReportMetric(peak(b, server)/1024, "server-MiB")
}

// writeFleet writes counters of containers, in pods of two replicas and ten namespaces, and returns how many
// samples these are.
func writeFleet(b *testing.B, dir string, containers int, length, every time.Duration) (samples int) {
	type series struct {
		labels labels.Labels
		value  func(minute float64, phase int) float64
		phase  int
	}
	var all []series
	constant := func(v float64) func(float64, int) float64 { return func(float64, int) float64 { return v } }
	rate := func(perMinute float64) func(float64, int) float64 {
		return func(minute float64, phase int) float64 { return perMinute * (minute + float64(phase%7)) }
	}
	for i := range containers {
		namespace, replicaSet := fmt.Sprintf("team-%d", i%20/2), fmt.Sprintf("app-%d-5d4f8c7b9d", i/2)
		pod := fmt.Sprintf("%s-x7x2%c", replicaSet, "bc"[i%2])
		add := func(name string, value func(float64, int) float64, more ...string) {
			all = append(all, series{labels.FromStrings(append([]string{"__name__", name, "namespace", namespace, "pod", pod}, more...)...), value, i})
		}
		add("container_cpu_usage_seconds_total", rate(6), "container", "app", "cpu", "total")
		add("container_cpu_cfs_periods_total", rate(400), "container", "app")
		add("container_cpu_cfs_throttled_periods_total", rate(float64(i%40)), "container", "app")
		add("kube_pod_container_resource_limits", constant(.25), "container", "app", "resource", "cpu")
		add("kube_pod_container_info", constant(1), "container", "app")
		add("kube_pod_owner", constant(1), "owner_kind", "ReplicaSet", "owner_name", replicaSet)
		add("kube_pod_info", constant(1), "node", fmt.Sprintf("n%d", i%100))
		add("kube_pod_status_phase", constant(1), "phase", "Running")
		if i%2 == 0 {
			all = append(all, series{labels.FromStrings("__name__", "kube_replicaset_owner", "namespace", namespace, "replicaset", replicaSet, "owner_kind", "Deployment", "owner_name", fmt.Sprintf("app-%d", i/2)), constant(1), i})
		}
	}
	for n := range 100 {
		all = append(all, series{labels.FromStrings("__name__", "kube_node_status_allocatable", "node", fmt.Sprintf("n%d", n), "resource", "cpu"), constant(32), n})
	}
	const block = 24 * time.Hour
	end := time.Now().Truncate(every)
	for from := end.Add(-length); from.Before(end); from = from.Add(block) {
		w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, 2*block.Milliseconds())
		if err != nil {
			b.Fatal(err)
		}
		for at := from; at.Before(from.Add(block)) && at.Before(end); at = at.Add(every) {
			a := w.Appender(context.Background())
			for i := range all {
				s := &all[i]
				if _, err := a.Append(0, s.labels, at.UnixMilli(), s.value(at.Sub(end.Add(-length)).Minutes(), s.phase)); err != nil {
					b.Fatal(err)
				}
				samples++
			}
			if err := a.Commit(); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := w.Flush(context.Background()); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
	return samples
}

// startServer starts bin/prometheus-server with data, and returns its process and URL.
func startServer(b *testing.B, data string) (pid int, url string) {
	dir := b.TempDir()
	config := filepath.Join(dir, "prometheus.yaml")
	if err := os.WriteFile(config, []byte("global: {}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	server := exec.Command("../../bin/prometheus-server", "--config.file="+config, "--storage.tsdb.path="+data, "--storage.tsdb.retention.time=30d", "--web.listen-address=127.0.0.1:0")
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		b.Skipf("make bin/prometheus-server bin/pinfold: %v", err)
	}
	b.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	for range 600 {
		text, _ := os.ReadFile(log.Name())
		if address := listening.FindSubmatch(text); address != nil {
			url = "http://" + string(address[1])
			if answer, err := http.Get(url + "/-/ready"); err == nil {
				_ = answer.Body.Close()
				if answer.StatusCode == http.StatusOK {
					return server.Process.Pid, url
				}
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.Fatal("the server is not ready")
	return 0, ""
}

// listening is what Prometheus logs when it listens.
var listening = regexp.MustCompile(`msg="Listening on".* address=(127\.0\.0\.1:\d+)`)

// peak returns the largest memory of a process, in KiB.
func peak(b *testing.B, pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(text)
	kib := 0.
	_, _ = fmt.Sscan(string(found[1]), &kib)
	return kib
}
