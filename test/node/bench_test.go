package node

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/internal/sleep"
	"pinfold.dev/pinfold/test/must"
)

// How long the agent is measured while idle, and the number of pods, each with two containers.
const (
	idlePods = 50
	idleTime = time.Minute
)

// BenchmarkIdleAgent measures the agent while nothing changes: its CPU usage and its memory, with
// the default sampling and without.
func BenchmarkIdleAgent(b *testing.B) {
	requireNode(b)
	b.Run("sampling=default", func(b *testing.B) { idleAgent(b) })
	b.Run("sampling=off", func(b *testing.B) { idleAgent(b, "--sample-interval=0") })
}

func idleAgent(b *testing.B, agentFlags ...string) {
	c := start(b, agentFlags...)
	for i := range idlePods {
		pod := podOf(fmt.Sprintf("idle-%d", i), "", container("main", "8001", "100m"), container("side", "8002", "100m"))
		for j := range pod.Spec.Containers {
			pod.Spec.Containers[j].Resources.Requests["cpu"] = resource.MustParse("1m")
		}
		must.Get(c.client.CoreV1().Pods(pod.Namespace).Create(b.Context(), pod, metav1.CreateOptions{}))(b)
	}
	for i := range idlePods {
		c.awaitRunning(b, fmt.Sprintf("idle-%d", i))
	}
	sleep.For(b.Context(), idleTime/4) // until the kubelet has reported everything
	for b.Loop() {
		before, begun := c.metrics(b), time.Now() // each takes the agent some milliseconds
		sleep.For(b.Context(), idleTime)
		after, passed := c.metrics(b), time.Since(begun)
		used := figure(b, after, "process_cpu_seconds_total") - figure(b, before, "process_cpu_seconds_total")
		rounds := figure(b, after, "pinfold_reconciles_total") - figure(b, before, "pinfold_reconciles_total")
		b.ReportMetric(100*used/passed.Seconds(), "%cpu")
		b.ReportMetric(rounds/passed.Minutes(), "rounds/min")
		b.ReportMetric(figure(b, after, "process_resident_memory_bytes")/1e6, "MB")
		b.ReportMetric(0, "ns/op")
	}
}

// figure returns one of the agent's metrics.
func figure(t testing.TB, metrics, name string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(metrics)
	if found == nil {
		t.Fatalf("the agent has no metric %s", name)
	}
	return must.Get(strconv.ParseFloat(found[1], 64))(t)
}
