package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"pinfold.dev/pinfold/kube/versions"
	"pinfold.dev/pinfold/local/localcluster"
	"pinfold.dev/pinfold/test/need"
)

// TestSmoke starts a cluster, has a pod placed and another one evicted, asks for the status, and stops
// the cluster, of which nothing is left.
func TestSmoke(t *testing.T) {
	need.This(t, "a local cluster")
	data := filepath.Join(t.TempDir(), "data")
	r, err := launch(data, versions.Newest().String())
	if err == nil {
		err = r.await()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Run("ready", func(t *testing.T) {
		c := beginOn(t, r)
		c.placesExactly()
		c.evictsForPriority()
		if report, exit := c.status(c.kubeconfig(), "--check"); exit != 0 || len(report.Nodes) != 4 {
			t.Errorf("exit status %d: %+v", exit, report)
		}
	})
	state, err := localcluster.ReadState(data)
	if err != nil || len(state.Components) == 0 {
		t.Fatalf("%v: %+v", err, state)
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("the data directory is left: %v", err)
	}
	for _, component := range state.Components {
		if err := syscall.Kill(component.PID, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("%s is left: %v", component.Name, err)
		}
	}
}

// placesExactly places a pod of 40 CPUs. They fit into one NUMA node of the Intel machine (52 each),
// and into two of the AMD machine (32 each).
func (c *test) placesExactly() {
	c.Helper()
	c.create(`
metadata: {name: exact, annotations: {cpuset-scheduler: "true"}}
spec:
  containers: [{name: app, image: app, resources: {requests: {cpu: 1}, limits: {cpu: 40}}}]
`)
	pod := c.bound("exact")
	if got := c.allocation(pod).Containers[0]; pod.Spec.NodeName != intel || got.CPUs.Len() != 40 || len(got.NUMANodes) != 1 {
		c.Errorf("on %s: %+v, want 40 CPUs of one NUMA node of %s", pod.Spec.NodeName, got, intel)
	}
}
