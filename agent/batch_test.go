package agent

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/nodeplan"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/linux/cgroup"
)

// newBatchPod returns a batch pod that requests this many thousandths of a CPU.
func newBatchPod(name, amount string) *corev1.Pod {
	p := newPod(name, "")
	request := corev1.ResourceList{api.BatchCPU: resource.MustParse(amount)}
	p.Labels = map[string]string{api.QoSLabel: string(nodeplan.BE)}
	p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: request, Requests: request}
	p.Status.QOSClass = corev1.PodQOSBestEffort
	return p
}

// TestBatchPods checks the quota of the tier of batch pods and what the node offers to them, on a node
// of 8 CPUs, while others use none and then six, and that a cleanup removes both.
func TestBatchPods(t *testing.T) {
	const tier = "/kubepods/besteffort"
	k := newTree(t)
	rejected := newBatchPod("rejected", "1000000") // by the kubelet, in a moment
	rejected.Status.Phase = corev1.PodPending
	w := newWorld(t, newBatchPod("batch", "700"), rejected)
	w.root, w.config.Batch = k.root, colocation.Config{Threshold: 0.65, Floor: 0.5}
	offered := func(want string) error {
		node, err := w.client.CoreV1().Nodes().Get(t.Context(), nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
			if got, ok := list[api.BatchCPU]; want != "" && got.String() != want || ok != (want != "") {
				return fmt.Errorf("the node offers %v, want %q", list, want)
			}
		}
		return nil
	}
	quota := func(want time.Duration) error {
		s, err := k.fs.Read(tier)
		if err == nil && s.Quota != want {
			err = fmt.Errorf("%s has a quota of %v, want %v", tier, s.Quota, want)
		}
		return err
	}
	stop := w.start()
	w.eventually(func() error { return quota(520 * time.Millisecond) })
	w.eventually(func() error { return offered("5200") })
	stop()

	ctx, cancel := context.WithCancel(t.Context())
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		for begun := time.Now(); ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			usage := fmt.Sprintf("%020d\n", 6*time.Since(begun).Nanoseconds())
			file, err := os.OpenFile(k.fs.File("/", cgroup.CPUAcctUsage), os.O_WRONLY, 0)
			if err == nil {
				_, err = file.WriteString(usage) // over the old one, so that no reader finds a part
				_ = file.Close()
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}()
	stop = w.start()
	w.eventually(func() error { return quota(50 * time.Millisecond) })
	w.eventually(func() error { return offered("700") }) // what its pod requests
	stop()
	cancel()
	<-loaded

	if _, err := Cleanup(t.Context(), w.options()); err != nil {
		t.Fatal(err)
	}
	if err := quota(-1); err != nil {
		t.Error(err)
	}
	if err := offered(""); err != nil {
		t.Error(err)
	}
}
