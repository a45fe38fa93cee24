package scheduler

import (
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// Binding goes on while the next pods are being scheduled, and preemption works on clones:
// each finds its own cycle.
func TestCyclesAreToldApart(t *testing.T) {
	p := &Plugin{}
	first, second := framework.NewCycleState(), framework.NewCycleState()
	if _, err := p.cycleOf(first); err == nil {
		t.Error("a cycle is found that has not begun")
	}
	ofFirst, ofSecond := &cycle{report: newReport()}, &cycle{report: newReport()}
	p.begin(first, ofFirst)
	p.begin(second, ofSecond)
	clone := second.Clone()
	if _, status := p.cycleOf(clone); status != nil {
		t.Fatal(status)
	}
	if status := p.RemovePod(t.Context(), clone, nil, nil, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got, err := p.cycleOf(first); err != nil || got != ofFirst {
		t.Errorf("first: %+v, %v", got, err)
	}
	if got, err := p.cycleOf(second); err != nil || got != ofSecond || got.trial {
		t.Errorf("second: %+v, %v", got, err)
	}
	if got, err := p.cycleOf(clone); err != nil || !got.trial || got == ofSecond {
		t.Errorf("clone: %+v, %v", got, err)
	}
}
