package agent

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/nri"
	"pinfold.dev/pinfold/linux/sampler"
)

// fullNode returns an engine on this machine's cgroups after a round with count online pods, each with
// two containers and a sandbox.
func fullNode(b *testing.B, h *hostTree, count int, config control.Config) (*agent, []*corev1.Pod) {
	b.Helper()
	var pods []*corev1.Pod
	for i := range count {
		pod := newPod(fmt.Sprintf("p%d", i))
		pod.Labels = map[string]string{api.QoSLabel: string(qos.LS)}
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1m")} // room for others
		sidecar := pod.Spec.Containers[0]
		sidecar.Name = "sidecar"
		pod.Spec.Containers = append(pod.Spec.Containers, sidecar)
		app, second, sandbox := fmt.Sprintf("%064x", 3*i), fmt.Sprintf("%064x", 3*i+1), fmt.Sprintf("%064x", 3*i+2)
		run(pod, app)
		status := pod.Status.ContainerStatuses[0]
		status.Name, status.ContainerID = "sidecar", "containerd://"+second
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
		h.make(h.podGroup(pod))
		for _, id := range []string{app, second, sandbox} {
			h.make(h.podGroup(pod) + "/" + id)
		}
		pods = append(pods, pod)
	}
	k, err := openKernel("/")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(k.groups.Close)
	config.NodeName = nodeName
	o := Options{Config: config, RunDir: b.TempDir(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))}.withDefaults()
	e := newAgent(o, k)
	e.pods.list = func() []*corev1.Pod { return pods }
	e.setKubelet(control.Kubelet{CPUManagerPolicy: "none", CgroupRoot: h.root})
	e.step(control.Event{Reserved: new(ledger.MilliCPU)})
	e.round()
	return e, pods
}

// BenchmarkRoundNothingDiffers measures a round that has nothing to write.
func BenchmarkRoundNothingDiffers(b *testing.B) {
	e, _ := fullNode(b, newHostTree(b), 125, control.Config{})
	before := written(e.kernel)
	for b.Loop() {
		e.round()
	}
	if now := written(e.kernel); now != before {
		b.Errorf("%d writes in rounds in which nothing differs", now-before)
	}
}

// BenchmarkStaticPodArrives measures the first round with a new pod that has an exclusive CPU, off
// which 1,000 containers of 500 other pods have to be moved.
func BenchmarkStaticPodArrives(b *testing.B) {
	h := newHostTree(b)
	_, rest := h.divide()
	e, others := fullNode(b, h, 500, control.Config{})
	last := h.podGroup(others[len(others)-1]) + "/" + fmt.Sprintf("%064x", 3*len(others)-2)
	writes := uint64(0)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		arriving := asking(fmt.Sprint("static", i)) // the groups of one that returns would have to pay for the writes
		id := fmt.Sprintf("%064x", 3*len(others))
		run(arriving, id)
		h.make(h.podGroup(arriving))
		h.make(h.podGroup(arriving) + "/" + id)
		e.pods.list = func() []*corev1.Pod { return append([]*corev1.Pod{arriving}, others...) }
		before := written(e.kernel)
		b.StartTimer()
		e.round()
		b.StopTimer()
		writes = written(e.kernel) - before
		if s, err := h.fs.Read(last); err != nil || s.CPUs != rest {
			b.Fatalf("%s has CPUs %q, want %q (%v)", last, s.CPUs, rest, err)
		}
		h.remove(h.podGroup(arriving))
		e.pods.list = func() []*corev1.Pod { return others }
		e.round()
		b.StartTimer()
	}
	if writes < 1000 {
		b.Errorf("%d writes, want at least 1000: that many containers have to be moved", writes)
	}
	b.ReportMetric(float64(writes), "writes")
}

// BenchmarkCreateAllocated measures how long the runtime waits for the answer about the first
// container of a pod to which the agent gives a CPU, off which 250 other containers and 125 sandboxes
// have to be moved. A p99 has ten observations beyond it: -benchtime 1000x.
func BenchmarkCreateAllocated(b *testing.B) {
	h := newHostTree(b)
	e, others := fullNode(b, h, 125, control.Config{})
	var waits []time.Duration
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		arriving := asking(fmt.Sprint("static", i))
		arriving.Spec.Containers[0].Resources.Requests = arriving.Spec.Containers[0].Resources.Limits
		id := fmt.Sprintf("%064x", 3*len(others))
		h.make(h.podGroup(arriving))
		e.pods.list = func() []*corev1.Pod { return append([]*corev1.Pod{arriving}, others...) }
		about := nri.Pod{UID: ledger.PodID(arriving.UID), CgroupParent: h.podGroup(arriving)}
		before := written(e.kernel)
		began := time.Now()
		b.StartTimer()
		settings, err := runtimeHandler{e.engine}.Create(b.Context(), about, nri.Container{ID: id, Name: "app"})
		b.StopTimer()
		if waits = append(waits, time.Since(began)); err != nil || settings.CPUs.Len() != 1 || written(e.kernel)-before < 375 {
			b.Fatalf("the pod gets CPUs %q (%v) after %d writes", settings.CPUs, err, written(e.kernel)-before)
		}
		h.remove(h.podGroup(arriving))
		e.pods.list = func() []*corev1.Pod { return others }
		e.round()
		b.StartTimer()
	}
	slices.Sort(waits)
	b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "p50-ms")
	if beyond := len(waits) / 100; beyond >= 10 {
		b.ReportMetric(float64(waits[len(waits)-1-beyond].Microseconds())/1000, "p99-ms")
	}
}

// BenchmarkTick measures a tick, of which there are ten per second, with a sample of each of 250
// containers whose quota may be raised.
func BenchmarkTick(b *testing.B) {
	e, _ := fullNode(b, newHostTree(b), 125, control.Config{Burst: burst.Policy{Mode: burst.Auto, BurstPercent: 100, QuotaPercent: 300, QuotaBurstSeconds: 60}})
	var samples []sampler.Sample
	for _, l := range e.status.Limited() {
		limits := bandwidth.Limits{Quota: l.Base.Quota, Period: l.Base.Period, Burst: l.Present.Burst}
		samples = append(samples, sampler.Sample{Group: l.Path, Sample: trace.Sample{Interval: tickEvery, Periods: 1, Usage: tickEvery / 3, Limits: limits}})
	}
	if len(samples) != 250 {
		b.Fatalf("%d containers", len(samples))
	}
	e.meters.add(samples)
	e.tick()
	before := written(e.kernel)
	for b.Loop() {
		e.meters.add(samples)
		e.tick()
	}
	if now := written(e.kernel); now != before {
		b.Errorf("%d writes in ticks in which nothing changes", now-before)
	}
}

func written(k *kernel) (n uint64) {
	for _, count := range k.groups.Writes() {
		n += count.Done + count.Refused
	}
	return n
}

// BenchmarkBatchTick measures a tick that bounds batch pods, on a node with 100 online containers
// whose waiting is measured. Two files are read for each. Version 1 has no pressure, so another
// file is read there.
func BenchmarkBatchTick(b *testing.B) {
	batch := colocation.Config{Threshold: 0.65, Floor: 0.5, Objective: time.Millisecond}
	e, _ := fullNode(b, newHostTree(b), 50, control.Config{Batch: batch})
	if online := len(e.status.Batch.Online); online != 100 {
		b.Fatalf("%d online containers", online)
	}
	for b.Loop() {
		e.control.Tick(groups.Tick{Colocation: e.usage.Measure(e.Now().Sub(e.began), &e.status.Batch)})
	}
}
