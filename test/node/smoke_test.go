package node

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/kube/admission"
	"pinfold.dev/pinfold/local/simnode"
	"pinfold.dev/pinfold/test/must"
)

// TestSmoke runs a real node with the stock kube-scheduler and Pinfold's. A pod of the one has a CPU
// for itself, one of the other has all other CPUs, and the kernel has that for each thread. While the
// agent is dead the settings stay, and the next agent gives them to the next pod. Afterwards the
// machine is as before. It waits for states only.
func TestSmoke(t *testing.T) {
	requireNode(t)
	all := online(t)
	if all.Len() < 2 {
		t.Skip("needs two CPUs: an exclusive and a shared one")
	}
	before := lookAt(t)
	c := startWith(t, "--stock")
	config := connection(t, filepath.Join(c.dir, "kubeconfig"))
	must.Do(t, errors.Join(simnode.InstallCRD(t.Context(), config), admission.Install(t.Context(), c.client)))
	runDir, flags := t.TempDir(), []string{"--lease-namespace=default"}
	agent := c.startAgent(t, runDir, flags...)
	c.startScheduler(t)

	one := container("main", "8001", "1")
	one.Resources.Requests = one.Resources.Limits // as the admission policy makes it, once it is effective
	static := c.run(t, podOf("static", "static", one))
	shared := podOf("shared", "", container("main", "8002", "500m"))
	shared.Spec.SchedulerName = own
	shared = c.run(t, shared)
	planned := c.allocated(t, static)
	if planned.Len() != 1 {
		t.Fatalf("the pod has CPUs %s", planned)
	}
	k, others := openKernel(t), all.Difference(planned)
	holds := func() error {
		return errors.Join(k.expectContainer(static, "main", settings{cpus: planned, quota: bandwidth.Unlimited}),
			k.expectSingle(shared, settings{cpus: others, quota: 50 * time.Millisecond}),
			k.expectNobodyElseOn(planned, k.containerGroup(static, "main")))
	}
	eventually(t, "the kernel's settings", holds)
	processes := func() []int { return append(k.processesOf(t, static, "main"), k.processesOf(t, shared, "main")...) }
	had := processes()

	agent.kill()
	must.Do(t, holds())
	c.startAgent(t, runDir, flags...)
	next := c.run(t, podOf("next", "", container("main", "8003", "250m")))
	eventually(t, "settings of the next pod", func() error { return k.expectSingle(next, settings{cpus: others, quota: 25 * time.Millisecond}) })
	must.Do(t, holds())
	if now := processes(); !slices.Equal(had, now) {
		t.Errorf("the processes of containers changed from %v to %v", had, now)
	}
	c.downTo(t, before)
}
