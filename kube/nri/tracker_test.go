package nri

import (
	"fmt"
	"testing"

	"github.com/containerd/nri/pkg/api"
)

func attempt(id string) *api.Container {
	return &api.Container{Id: id, Name: "main", Linux: &api.LinuxContainer{Resources: &api.LinuxResources{Cpu: &api.LinuxCPU{}}}}
}

// TestFailsAnyway follows a container that cannot be created for another reason: it is tried with
// and without our settings in turns, and gets them once the reason is gone.
func TestFailsAnyway(t *testing.T) {
	tracker, pod := newTracker(), &api.PodSandbox{Uid: "5a0c"}
	for i := range 10 {
		id := fmt.Sprint("c", i)
		cpu, r := tracker.create(pod, attempt(id), &api.LinuxCPU{Cpus: "2-3"})
		if given := cpu != nil; given != (i%2 == 0) || (r.yielded == hasFailed) == given {
			t.Errorf("attempt %d: settings given: %v, yielded: %v", i, given, r.yielded)
		}
		if i < 5 { // undone, or just tried again, as by containerd 1.7
			tracker.stop(id)
		}
	}
	c := attempt("last")
	if cpu, _ := tracker.create(pod, c, &api.LinuxCPU{Cpus: "2-3"}); cpu == nil {
		t.Error("no settings given")
	}
	if _, ok := tracker.start(c); !ok || len(tracker.failed) != 0 || len(tracker.records) != 1 || tracker.rival {
		t.Errorf("%+v", tracker)
	}
	if _, ok := tracker.start(c); ok {
		t.Error("started twice")
	}
}

// TestNothingAsked: the failure of a container without settings is not evidence of another plugin.
func TestNothingAsked(t *testing.T) {
	tracker, pod := newTracker(), &api.PodSandbox{Uid: "5a0c"}
	tracker.create(pod, attempt("c1"), nil)
	tracker.stop("c1")
	if cpu, _ := tracker.create(pod, attempt("c2"), &api.LinuxCPU{Cpus: "2-3"}); cpu == nil {
		t.Error("no settings given")
	}
}

// TestMemory: pods that never return do not accumulate.
func TestMemory(t *testing.T) {
	tracker := newTracker()
	for i := range 3 * maxFailed {
		id := fmt.Sprint(i)
		tracker.create(&api.PodSandbox{Uid: id}, attempt(id), &api.LinuxCPU{Cpus: "2-3"})
		tracker.stop(id)
	}
	if len(tracker.failed) != maxFailed || len(tracker.records) != 0 {
		t.Errorf("%d failures and %d containers are remembered", len(tracker.failed), len(tracker.records))
	}
	// The latest ones are remembered.
	if cpu, _ := tracker.create(&api.PodSandbox{Uid: fmt.Sprint(3*maxFailed - 1)}, attempt("x"), &api.LinuxCPU{Cpus: "2-3"}); cpu != nil {
		t.Error("the latest failure is forgotten")
	}
}
