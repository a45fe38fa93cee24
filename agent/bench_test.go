package agent

import (
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/core/trace"
	"pinfold.dev/pinfold/linux/sampler"
)

// fullNode is an engine on this machine's control groups that has done a round over 125
// pods of two containers and a sandbox each.
func fullNode(b *testing.B, config control.Config) *engine {
	b.Helper()
	h := newHostTree(b)
	var pods []*corev1.Pod
	for i := range 125 {
		pod := newPod(fmt.Sprintf("p%d", i), "")
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
	o := Options{Config: config, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}.withDefaults()
	e := newEngine(o, k)
	e.pods = func() []*corev1.Pod { return pods }
	e.setKubelet(control.Kubelet{CPUManagerPolicy: "none", CgroupRoot: h.root})
	e.round()
	return e
}

// BenchmarkRoundNothingDiffers is a round in which nothing is to be written.
func BenchmarkRoundNothingDiffers(b *testing.B) {
	e := fullNode(b, control.Config{})
	before := written(e.kernel)
	for b.Loop() {
		e.round()
	}
	if now := written(e.kernel); now != before {
		b.Errorf("%d writes in rounds in which nothing differs", now-before)
	}
}

// BenchmarkTick is a tick with a sample of each of 250 containers whose quota may be
// raised, which happens ten times a second.
func BenchmarkTick(b *testing.B) {
	e := fullNode(b, control.Config{Burst: nodeplan.BurstPolicy{Mode: nodeplan.BurstAuto, BurstPercent: 100, QuotaPercent: 300, QuotaBurst: time.Minute}})
	var samples []sampler.Sample
	for _, l := range e.control.Limited() {
		limits := bandwidth.Limits{Quota: l.Base.Quota, Period: l.Base.Period, Burst: l.Present.Burst}
		samples = append(samples, sampler.Sample{Group: l.Group, Sample: trace.Sample{Interval: tickEvery, Periods: 1, Usage: tickEvery / 3, Limits: limits}})
	}
	if len(samples) != 250 {
		b.Fatalf("%d containers", len(samples))
	}
	e.meters.take(samples)
	e.tick()
	before := written(e.kernel)
	for b.Loop() {
		e.meters.take(samples)
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
