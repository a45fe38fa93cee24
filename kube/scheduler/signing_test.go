package scheduler

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/scheduler/signing/signingtest"
)

const forgedAllocation = `{"version":1,"node":"n1","policy":"static","containers":[{"name":"app","cpus":"0-3","numaNodes":[0]}]}`

// With a key, an unsigned allocation on a pod that was not bound by the scheduler claims no CPUs.
func TestForgedAllocationClaimsNothing(t *testing.T) {
	key, _ := signingtest.KeyFiles(t)
	s := newScenario(t, DefaultConfiguration+"      signingKey: "+key+"\n", "node n1 cores=8", "pod innocent cpus=2")
	innocent := s.pods()[0]
	forged := s.podOf("forged", []string{"cpus=4", "bound=n1", "cpu-allocation=" + forgedAllocation})
	forged.UID, forged.Status.Conditions = "a", innocent.Status.Conditions // bound in the same second, with the lower UID
	s.must(s.client.Tracker().Add(forged))
	s.awaitIdle()
	s.changes()
	// 6 are left for exclusive use, less 4 for what the forged pod requests of the shared ones.
	want := []string{"next on n1: static 2-3 of NUMA [0]"}
	if diff := cmp.Diff(want, s.play("pod next cpus=2")); diff != "" {
		t.Error(diff)
	}
}

// A pod whose allocation is removed and later restored does not get its CPUs back from another pod.
func TestRestoredAllocationClaimsNothing(t *testing.T) {
	key, _ := signingtest.KeyFiles(t)
	s := newScenario(t, DefaultConfiguration+"      signingKey: "+key+"\n", "node n1 cores=4", "pod first request=100m limit=3 cpuset-scheduler=true")
	allocation := s.pods()[0].Annotations[api.AllocationAnnotation]
	s.play("edit first cpu-allocation-", "pod second request=100m limit=3 cpuset-scheduler=true")
	s.play("edit first cpu-allocation="+allocation, "pod next request=10m")
	if lost := s.plugin.nodes.kept("n1").last.Load().books.Conflicts(); len(lost) != 1 || lost[0].ID != "first" {
		t.Errorf("these pods lose their CPUs: %v; want first", lost)
	}
}

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
