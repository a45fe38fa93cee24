package agent

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control"
)

// BenchmarkRoundNothingDiffers is a round over 125 pods of two containers and a sandbox
// each, on this machine's control groups, in which nothing is to be written.
func BenchmarkRoundNothingDiffers(b *testing.B) {
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
	o := Options{Config: control.Config{NodeName: nodeName}, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}.withDefaults()
	e := newEngine(o, k)
	e.pods = func() []*corev1.Pod { return pods }
	e.setKubelet(control.Kubelet{CPUManagerPolicy: "none", CgroupRoot: h.root})
	e.round()
	before := written(k)
	for b.Loop() {
		e.round()
	}
	if now := written(k); now != before {
		b.Errorf("%d writes in rounds in which nothing differs", now-before)
	}
}

func written(k *kernel) (n uint64) {
	for _, count := range k.groups.Writes() {
		n += count.Done + count.Refused
	}
	return n
}
