package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/schedtrace"
	"pinfold.dev/pinfold/report/perfetto/perfettotest"
	"pinfold.dev/pinfold/test/must"
	"pinfold.dev/pinfold/tracefile"
)

// testWhy lets a container use up its quota, or that of its pod, which is the same: "pinfold why"
// says so, and leaves out the sandbox; "pinfold top" knows its name.
func (s *settled) testWhy(t *testing.T) {
	group := s.kernel.containerGroup(s.pods["limited"], "main")
	end := s.kernel.spin(t, group)
	defer end()
	if table, err := exec.CommandContext(t.Context(), filepath.Join(programs, "pinfold"), "top", "--once").CombinedOutput(); err != nil ||
		!strings.Contains(string(table), "default/limited/main") {
		t.Errorf("%v\n%s", err, table)
	}
	traceFile := filepath.Join(t.TempDir(), "why.pftrace")
	output, err := exec.CommandContext(t.Context(), filepath.Join(programs, "pinfold"), "why", "--pod", "default/limited", "--duration", "2s", "-o", "json",
		"--perfetto", traceFile).CombinedOutput()
	if err != nil && strings.Contains(string(output), "cannot trace the scheduler") {
		t.Logf("%s", output) // a kernel without type information
		return
	}
	var report struct {
		Containers []struct {
			Name      string
			Limit     float64 `json:"limitCPUs"`
			Throttled int     `json:"throttledPeriods"`
			Advice    string
			Parts     struct {
				Throttled float64 `json:"throttledSeconds"`
			}
		}
	}
	if err != nil || json.Unmarshal(output, &report) != nil || len(report.Containers) != 1 {
		t.Fatalf("%v\n%s", err, output)
	}
	if c := report.Containers[0]; c.Name != "default/limited/main" || c.Limit != 0.5 || c.Throttled < 5 || !strings.Contains(c.Advice, "limits.cpu") {
		t.Errorf("%s", output)
	}
	content := must.Get(os.ReadFile(traceFile))(t)
	rows := perfettotest.Query(t, repositoryDir, content, `select cast(sum(dur) / 1e9 as text) from slice join track on track.id = slice.track_id
		join track container on container.id = track.parent_id where slice.name = 'throttled' and container.name = 'default/limited/main'`)
	if got, err := strconv.ParseFloat(rows[0], 64); err != nil || math.Abs(got-report.Containers[0].Parts.Throttled) > 0.01*got {
		t.Errorf("throttled for %v s in the trace (%v): %s", got, err, output)
	}
}

// canTrace reports whether the kernel lets the scheduler be traced.
func canTrace(t *testing.T) bool {
	t.Helper()
	tracer, err := schedtrace.Open(schedtrace.Options{})
	if errors.Is(err, errors.ErrUnsupported) {
		t.Log(err)
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return tracer.Close() == nil
}

// eventuallyTraced lets a pod's container have more busy threads than there are CPUs, and checks
// that the agent traces how long they wait, by its own and more metrics that are above 0 then.
func (s *settled) eventuallyTraced(t *testing.T, pod *corev1.Pod, more ...string) {
	t.Helper()
	if !canTrace(t) {
		return
	}
	group := s.kernel.containerGroup(pod, "main")
	for range runtime.NumCPU() + 1 {
		defer s.kernel.spin(t, group)()
	}
	more = append(more, "pinfold_trace_running ",
		fmt.Sprintf("pinfold_container_cpu_run_delay_seconds_count{container=%q,namespace=%q,pod=%q} ", "main", pod.Namespace, pod.Name))
	eventually(t, "traced delays", func() error {
		text := s.metrics(t)
		for _, name := range more {
			if _, value, found := strings.Cut(text, "\n"+name); !found || strings.HasPrefix(value, "0\n") {
				return fmt.Errorf("want %sabove 0 in\n%s", name, text)
			}
		}
		return nil
	})
}

// testExact records the container while it uses up its quota, and traces its threads.
func (s *settled) testExact(t *testing.T) {
	group := s.kernel.containerGroup(s.pods["limited"], "main")
	end := s.kernel.spin(t, group)
	defer end()
	file := filepath.Join(t.TempDir(), "exact.parquet")
	output, err := exec.CommandContext(t.Context(), filepath.Join(programs, "pinfold"), "sample", group, "--duration", "2s", "-o", file,
		"--exact", "--max-cost", "100").CombinedOutput()
	if err != nil && strings.Contains(string(output), "cannot trace the scheduler") {
		t.Logf("%s", output) // a kernel without type information
		return
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	rec, _, err := tracefile.Read(file, 0)
	if err != nil || rec.Series[0].Exact == nil {
		t.Fatalf("%v\n%s", err, output)
	}
	x, sum := rec.Series[0].Exact, trace.Summarise(&rec.Series[0], rec.Interval)
	if ran, used := x.Running.Seconds(), sum.Usage.Seconds(); ran < .9*used-.05 || x.Throttled == 0 {
		t.Errorf("ran for %v s, was throttled for %v, the kernel counted %v s\n%s", ran, x.Throttled, used, output)
	}
	edges := 0
	for span, err := range tracefile.Spans(file) {
		if err != nil {
			t.Fatal(err)
		}
		if span.Quota != nil {
			edges++
		} else if span.Name != "default/limited/main" || span.Group != group {
			t.Fatalf("%+v", span)
		}
	}
	if edges < 5 {
		t.Errorf("%d edges of quotas", edges)
	}
}
