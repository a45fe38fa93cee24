package monitoring

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// BenchmarkFleet measures advice on 5,000 containers over a week that a real server has stored each
// minute, with its page. Storing that takes ten minutes and a gigabyte.
//
//	go test -C tools/monitoring -run '^$' -bench Fleet -benchtime 3x -timeout 1h
func BenchmarkFleet(b *testing.B) {
	prometheus, data := find(b), b.TempDir()
	end := time.Now().Truncate(time.Minute)
	writeWeek(b, data, 5000, end)
	url, server := serve(b, prometheus, data)
	page := filepath.Join(b.TempDir(), "page.html")
	memory := 0.
	for b.Loop() {
		command := exec.CommandContext(b.Context(), "../../bin/pinfold", "advise", "--prometheus", url, "--since", "7d", "-o", "csv", "--html", page, "--force")
		var out, problems strings.Builder
		command.Stdout, command.Stderr = &out, &problems
		if err := command.Start(); err != nil {
			b.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- command.Wait() }()
		var err error
		for running := true; running; {
			memory = max(memory, peak(command.Process.Pid))
			select {
			case err = <-ended:
				running = false
			case <-time.After(50 * time.Millisecond):
			}
		}
		if err != nil {
			b.Fatalf("%v: %s", err, problems.String())
		}
		if rows := strings.Count(out.String(), "\n") - 1; rows != 2500 {
			b.Fatalf("%d rows, want one for each pair of replicas", rows)
		}
	}
	b.ReportMetric(memory, "MB-advise")
	b.ReportMetric(peak(server), "MB-server")
}

// peak returns the most memory that a process has had so far, in MB; 0 if it has ended.
func peak(pid int) (mb float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, after, found := strings.Cut(string(text), "VmHWM:"); found {
		_, _ = fmt.Sscan(after, &mb)
	}
	return mb / 1024
}

// writeWeek writes a week of metrics of containers, in a block for each day.
func writeWeek(b *testing.B, dir string, containers int, end time.Time) {
	b.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	type one struct {
		labels     labels.Labels
		value, add float64
	}
	var all []one
	for i := range containers {
		namespace, pod, workload := fmt.Sprintf("team-%d", i/100), fmt.Sprintf("web-%d-%d", i/2, i%2), fmt.Sprintf("web-%d", i/2)
		of := []string{"namespace", namespace, "pod", pod, "container", "app"}
		add := func(value, each float64, name string, more ...string) {
			all = append(all, one{labels.FromStrings(append(append([]string{"__name__", name}, of...), more...)...), value, each})
		}
		limit, used, throttled := 1+float64(i/2%4), .1+r.Float64(), 30*r.Float64()
		group := []string{"id", fmt.Sprintf("/kubepods/%d", i)}
		add(0, 60*used, "container_cpu_usage_seconds_total", group...)
		add(0, 500, "container_cpu_cfs_periods_total", group...)
		add(0, throttled, "container_cpu_cfs_throttled_periods_total", group...)
		add(0, .08*throttled, "container_cpu_cfs_throttled_seconds_total", group...)
		add(limit, 0, "kube_pod_container_resource_limits", "resource", "cpu", "unit", "core")
		add(limit, 0, "kube_pod_container_resource_requests", "resource", "cpu", "unit", "core")
		of = []string{"namespace", namespace, "pod", pod}
		add(1, 0, "kube_pod_owner", "owner_kind", "StatefulSet", "owner_name", workload)
	}
	const days = 8 // the first is for rates at the beginning
	for day := range days {
		w, err := tsdb.NewBlockWriter(slog.New(slog.DiscardHandler), dir, (24 * time.Hour).Milliseconds())
		if err != nil {
			b.Fatal(err)
		}
		refs := make([]storage.SeriesRef, len(all))
		for minute := range 24 * 60 {
			appender := w.Appender(b.Context())
			at := end.Add(time.Duration((day-days)*24*60+minute+1) * time.Minute).UnixMilli()
			for i := range all {
				s := &all[i]
				s.value += s.add * (.5 + r.Float64())
				if refs[i], err = appender.Append(refs[i], s.labels, at, s.value); err != nil {
					b.Fatal(err)
				}
			}
			if err := appender.Commit(); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := w.Flush(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
