package scheduler

import (
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework"

	"pinfold.dev/pinfold/test/must"
)

// Each CycleState has its own cycle, and a trial on a clone does not change the original.
func TestCycleOf(t *testing.T) {
	p := &Plugin{}
	first, second := framework.NewCycleState(), framework.NewCycleState()
	if _, err := cycleOf(first); err == nil {
		t.Error("a cycle is found before PreFilter")
	}
	ofFirst, ofSecond := &cycle{report: newReport()}, &cycle{report: newReport()}
	first.Write(cycleKey, ofFirst)
	second.Write(cycleKey, ofSecond)
	clone := second.Clone()
	must.Get(cycleOf(clone))(t)
	if status := p.RemovePod(t.Context(), clone, nil, nil, nil); !status.IsSuccess() {
		t.Fatal(status)
	}
	if got, err := cycleOf(first); err != nil || got != ofFirst {
		t.Errorf("first: %+v, %v", got, err)
	}
	if got, err := cycleOf(second); err != nil || got != ofSecond || got.trial {
		t.Errorf("second: %+v, %v", got, err)
	}
	if got, err := cycleOf(clone); err != nil || !got.trial || got == ofSecond {
		t.Errorf("clone: %+v, %v", got, err)
	}
}
