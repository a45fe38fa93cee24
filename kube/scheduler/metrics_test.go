package scheduler

import (
	"testing"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"pinfold.dev/pinfold/test/must"
)

// TestMetrics counts placements, and a refusal, whose pod waits.
func TestMetrics(t *testing.T) {
	count := func(of *metrics.CounterVec, label string) float64 {
		return must.Get(testutil.GetCounterMetricValue(of.WithLabelValues(label)))(t)
	}
	s := newScenario(t, DefaultConfiguration, "node n1 packages=1 cores=8") // registers the metrics
	placed, refused := count(placements, "static"), count(refusals, "exclusive_cpus")
	s.play("pod first cpus=3", "pod large cpus=6", "pod second cpus=1")
	if got := count(placements, "static") - placed; got != 2 {
		t.Errorf("%v placements, want 2", got)
	}
	if got := count(refusals, "exclusive_cpus") - refused; got < 1 {
		t.Errorf("%v refusals of the node for its exclusive CPUs", got)
	}
	if got := s.plugin.shared.waiting.Count(asks); got != 1 {
		t.Errorf("%d pods wait, want 1", got)
	}
	s.play("delete large")
	s.eventually("a deleted pod waits", func() bool { return s.plugin.shared.waiting.Count(asks) == 0 })
	for kind := noTopology; kind <= gaveUp; kind++ {
		if reasonNames[kind] == "" {
			t.Errorf("shortage %d has no name", kind)
		}
	}
}
