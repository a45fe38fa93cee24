package scheduler

import (
	"testing"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler/signing/signingtest"
)

const forgedAllocation = `{"version":1,"node":"n1","policy":"static","containers":[{"name":"app","cpus":"0-3","numaNodes":[0]}]}`

// The clock of an agent that has given CPUs does not change that of the scheduler.
func TestClockOfAgent(t *testing.T) {
	key, _ := signingtest.KeyFiles(t)
	s := newScenario(t, DefaultConfiguration+"      signingKey: "+key+"\n", "node n1 cores=8 allocates", "pod first cpus=2",
		"report n1 cores=8 gave=first:0-1", "pod second cpus=2")
	if s.seen["second"] != "second on n1: static 2-3 of NUMA [0]" {
		t.Error(s.seen["second"])
	}
	for _, pod := range s.pods() {
		if a, _ := api.AllocationOf(&pod); pod.Name == "second" && !a.Time.Before(aheadOfTime) {
			t.Errorf("the scheduler decides at %v", a.Time)
		}
	}
}

// A forged allocation on a pod that does not ask is overwritten when the pod is bound.
func TestForgedAllocationIsOverwritten(t *testing.T) {
	s := newScenario(t, DefaultConfiguration, "node n1 cores=4", "pod plain request=1 cpu-allocation="+forgedAllocation)
	if got := s.pods()[0].Annotations[api.AllocationAnnotation]; got != "" {
		t.Errorf("the bound pod has the allocation %s", got)
	}
	s.play("edit plain cpuset-scheduler=true")
	if _, err := api.AllocationOf(&s.pods()[0]); err == nil {
		t.Error("the pod has an allocation when it begins to ask")
	}
}
