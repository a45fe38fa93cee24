package agent

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/agent/control"
)

// BenchmarkRoundNothingDiffers is a round over 125 pods of a sandbox and a container, on
// this machine's control groups, in which nothing is to be written.
func BenchmarkRoundNothingDiffers(b *testing.B) {
	h := newHostTree(b)
	var pods []*corev1.Pod
	for i := range 125 {
		pod := newPod(fmt.Sprintf("p%d", i), "")
		id, sandbox := fmt.Sprintf("%064x", 2*i), fmt.Sprintf("%064x", 2*i+1)
		run(pod, id)
		h.make(h.podGroup(pod))
		h.make(h.podGroup(pod) + "/" + id)
		h.make(h.podGroup(pod) + "/" + sandbox)
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
