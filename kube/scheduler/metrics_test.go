package scheduler

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"

	"pinfold.dev/pinfold/kube/nodetopology"
	"pinfold.dev/pinfold/test/must"
)

// TestMetrics counts placements, what their agents made of them, and a refusal, whose pod waits.
func TestMetrics(t *testing.T) {
	count := func(of *metrics.CounterVec, label string) float64 {
		return must.Get(testutil.GetCounterMetricValue(of.WithLabelValues(label)))(t)
	}
	s := newScenario(t, DefaultConfiguration, "node n1 packages=1 cores=8") // registers the metrics
	placed, refused := count(placements, "static"), count(refusals, "exclusive_cpus")
	kept, failed := count(predictions, "kept"), count(predictions, "failed")
	s.play("pod first cpus=3", "pod large cpus=6", "pod second cpus=1")
	if got := count(placements, "static") - placed; got != 2 {
		t.Errorf("%v placements, want 2", got)
	}
	if got := count(predictions, "kept") - kept; got != 2 {
		t.Errorf("agents have allocated CPUs to %v pods, want 2", got)
	}
	s.run(strings.Fields("pod third cpus=1"))
	s.awaitIdle()
	machine, state, err := nodetopology.ToMachine(must.Get(s.topologies.Get(t.Context(), "n1", metav1.GetOptions{}))(t))
	must.Do(t, err)
	for range 2 { // which counts once
		state.Findings = append(state.Findings, nodetopology.Finding{Severity: "warning", Reason: "CPUsNotGiven", Message: "no", Pod: "third"})
		s.publish(must.Get(nodetopology.FromMachine("n1", machine, state))(t))
	}
	s.eventually("the prediction has failed", func() bool { return count(predictions, "failed")-failed == 1 })
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
