package agent

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/linux/cgroup"
	"pinfold.dev/pinfold/test/must"
)

// has returns an error unless a cgroup has the given bandwidth.
func (h *hostTree) has(group string, want bandwidth.Limits) error {
	s, err := h.fs.Read(group)
	if err == nil && s.Limits != want {
		err = fmt.Errorf("%s has %+v, want %+v", group, s.Limits, want)
	}
	return err
}

// requireBurst skips the test on kernels without burst.
func (h *hostTree) requireBurst() {
	if s, err := h.fs.Read(h.root); err != nil || s.NoBurst {
		h.t.Skipf("this kernel has no CPU burst (%v): use Linux 5.14 or newer", err)
	}
}

// burstPod returns a pod with a limit of one CPU and the given annotations.
func burstPod(name string, annotations map[string]string) *corev1.Pod {
	p := newPod(name, "")
	p.Annotations = annotations
	return p
}

// TestBurstOnThisMachine checks that the kernel has the settings in pods' annotations: policies and
// a period, after a foreign write, after a resize that the kernel rejects at first, and after
// cleanup.
func TestBurstOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	tree.requireBurst()
	ms := time.Millisecond
	limit := bandwidth.Limits{Quota: 100 * ms, Period: 100 * ms}
	pods := map[string]*corev1.Pod{
		"plain": burstPod("plain", nil),
		"burst": burstPod("burst", map[string]string{"pinfold.dev/cpu-burst": `{"policy":"burst","burstPercent":40}`}),
		"koord": burstPod("koord", map[string]string{"koordinator.sh/cpuBurst": `{"policy":"auto","cpuBurstPercent":1000}`}),
		"fast":  burstPod("fast", map[string]string{"pinfold.dev/cpu-burst": `{"policy":"auto"}`, "pinfold.dev/cpu-period": "20ms"}),
	}
	want := map[string]bandwidth.Limits{"plain": limit, "burst": {Quota: 100 * ms, Period: 100 * ms, Burst: 40 * ms}, "koord": {Quota: 100 * ms, Period: 100 * ms, Burst: 100 * ms},
		"fast": {Quota: 20 * ms, Period: 20 * ms, Burst: 20 * ms}}
	w := tree.world(t)
	groups := map[string]string{}
	for i, name := range []string{"plain", "burst", "koord", "fast"} {
		id := containerID(rune('a' + i))
		run(pods[name], id)
		groups[name], _ = tree.container(pods[name], id)
		tree.set(groups[name], cgroup.CPUCFSQuota, "100000")
		if err := w.client.Tracker().Add(pods[name]); err != nil {
			t.Fatal(err)
		}
	}
	w.config.Burst.BurstPercent = 100
	check := func() error {
		var errs []error
		for name, b := range want {
			errs = append(errs, tree.has(tree.podGroup(pods[name]), b), tree.has(groups[name], b))
		}
		return errors.Join(errs...)
	}
	stop := w.start()
	w.eventually(check)

	tree.write(tree.fs.File(groups["koord"], cgroup.CPUCFSBurst), "0")
	tree.write(tree.fs.File(groups["koord"], cgroup.CPUCFSQuota), "50000")
	w.eventually(func() error { return w.log.Says("another program changed quota of " + groups["koord"]) })
	w.eventually(check)

	quota := tree.fs.File(groups["burst"], cgroup.CPUCFSQuota)
	if err := tryWrite(quota, "30000"); err == nil {
		t.Error("the kernel accepts a quota below the burst; the agent need not prepare resizes")
	}
	w.resize(pods["burst"], "300m", 2, 1)
	for _, file := range []string{quota, tree.fs.File(tree.podGroup(pods["burst"]), cgroup.CPUCFSQuota)} {
		w.eventually(func() error { return tryWrite(file, "30000") })
	}
	w.resize(pods["burst"], "300m", 2, 2)
	want["burst"] = bandwidth.Limits{Quota: 30 * ms, Period: 100 * ms, Burst: 12 * ms}
	w.eventually(check)
	stop()
	if _, err := Cleanup(t.Context(), w.options()); err != nil {
		t.Fatal(err)
	}
	want = map[string]bandwidth.Limits{"plain": limit, "burst": {Quota: 30 * ms, Period: 100 * ms}, "koord": limit, "fast": limit}
	if err := check(); err != nil {
		t.Errorf("after the cleanup: %v", err)
	}
}

// resize changes the limit, the generation and the observed generation of a pod.
func (w *world) resize(p *corev1.Pod, limit string, generation, observed int64) {
	w.t.Helper()
	p = p.DeepCopy()
	p.Spec.Containers[0].Resources.Limits[corev1.ResourceCPU] = resource.MustParse(limit)
	p.Generation, p.Status.ObservedGeneration = generation, observed
	if _, err := w.client.CoreV1().Pods(p.Namespace).Update(w.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// TestBurstAtTheStartOnThisMachine sends the requests of a container runtime. The answer to the
// creation has quota and period, and the cgroup has its burst when the start is answered.
func TestBurstAtTheStartOnThisMachine(t *testing.T) {
	tree := newHostTree(t)
	tree.requireBurst()
	ms := time.Millisecond
	pod := burstPod("fast", map[string]string{"pinfold.dev/cpu-burst": `{"policy":"burst"}`, "pinfold.dev/cpu-period": "20ms"})
	w := tree.world(t, pod)
	w.config.Burst.BurstPercent = 100
	answered := make(chan error, 1)
	w.runtime = func(ctx context.Context, o nri.Options, h nri.Handler) {
		o.OnState(nri.State{Connected: true})
		h.Synchronize(ctx, nil, nil)
		w.eventually(w.ready)
		sandbox := nri.Pod{ID: "s", UID: "uid-fast", Namespace: "default", Name: "fast", CgroupParent: tree.podGroup(pod)}
		c := nri.Container{ID: containerID('a'), PodID: "s", Name: "app", CgroupsPath: tree.podGroup(pod) + "/" + containerID('a')}
		tree.make(tree.podGroup(pod))
		tree.write(tree.fs.File(tree.podGroup(pod), cgroup.CPUCFSQuota), "100000")
		settings, err := h.Create(ctx, sandbox, c)
		if settings.Quota != 20*ms || settings.Period != 20*ms {
			err = errors.Join(err, fmt.Errorf("the container gets %+v", settings))
		}
		tree.make(c.CgroupsPath) // as the runtime does with these settings
		tree.write(tree.fs.File(c.CgroupsPath, cgroup.CPUCFSPeriod), "20000")
		tree.write(tree.fs.File(c.CgroupsPath, cgroup.CPUCFSQuota), "20000")
		err = errors.Join(err, h.Start(ctx, sandbox, c))
		want := bandwidth.Limits{Quota: 20 * ms, Period: 20 * ms, Burst: 20 * ms}
		answered <- errors.Join(err, tree.has(c.CgroupsPath, want), tree.has(tree.podGroup(pod), want))
		<-ctx.Done()
	}
	w.start()
	must.Do(t, <-answered)
}
