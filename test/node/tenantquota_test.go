package node

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/test/must"
)

// runAsking runs a pod of the tenant that has an exclusive CPU and hence no quota.
func (h *hostile) runAsking(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	pod := podOf(name, "static", container("main", "8001", "1"))
	pod.Spec.ActiveDeadlineSeconds = new(int64(900_000))
	pod = h.runPod(t, pod)
	eventually(t, "a removed quota", func() error { return h.kernel.expectSingle(pod, settings{quota: bandwidth.Unlimited}) })
	return pod
}

// patch changes a pod of the tenant.
func (h *hostile) patch(ctx context.Context, name, patch string) error {
	_, err := h.tenant.CoreV1().Pods(tenantNamespace).Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

func (h *hostile) removeOwn(t *testing.T, name string) {
	t.Helper()
	if err := h.tenant.CoreV1().Pods(tenantNamespace).Delete(context.WithoutCancel(t.Context()), name, *metav1.NewDeleteOptions(0)); err != nil {
		t.Error(err)
	}
}

// testEdits gives up an exclusive CPU while the pod's spec is edited all the time, so the kubelet
// has never seen the last edit. The quota is restored, and two busy threads use the limit of one
// CPU.
func (h *hostile) testEdits(t *testing.T) {
	pod := h.runAsking(t, "edits")
	defer h.removeOwn(t, pod.Name)
	ctx, cancel := context.WithCancel(t.Context())
	var edits sync.WaitGroup
	count := 0
	edits.Go(func() {
		for seconds := 899_999; ctx.Err() == nil; seconds-- {
			if h.patch(ctx, pod.Name, fmt.Sprintf(`{"spec":{"activeDeadlineSeconds":%d}}`, seconds)) == nil {
				count++
			}
		}
	})
	defer edits.Wait()
	defer cancel()
	time.Sleep(time.Second)
	must.Do(t, h.patch(ctx, pod.Name, fmt.Sprintf(`{"metadata":{"annotations":{%q:"false"}}}`, api.CPUSetSchedulerAnnotation)))
	eventually(t, "a restored quota", func() error { return h.kernel.expectSingle(pod, settings{quota: 100 * time.Millisecond}) })
	group := h.kernel.containerGroup(pod, "main")
	for range 2 {
		h.kernel.spin(t, group)
	}
	before, begun := h.kernel.usage(t, group), time.Now()
	time.Sleep(5 * time.Second)
	h.kernel.usesAtMost(t, group, before, begun, func(elapsed time.Duration) time.Duration {
		return elapsed + 300*time.Millisecond + 20*time.Millisecond // with a limit of one CPU
	})
	cancel()
	edits.Wait()
	t.Logf("%d edits", count)
}

// testEphemeral adds an ephemeral container to a pod with an exclusive CPU, whose quota is removed.
// It runs on that CPU only.
func (h *hostile) testEphemeral(t *testing.T) {
	pod := h.runAsking(t, "debugged")
	defer h.removeOwn(t, pod.Name)
	want := settings{cpus: h.allocated(t, pod), quota: bandwidth.Unlimited}
	debug := corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon(container("debug", "8002", ""))}
	with := pod.DeepCopy()
	with.Spec.EphemeralContainers = append(with.Spec.EphemeralContainers, debug)
	pods := h.client.CoreV1().Pods(tenantNamespace) // the ClusterRole edit does not include it
	must.Get(pods.UpdateEphemeralContainers(t.Context(), pod.Name, with, metav1.UpdateOptions{}))(t)
	eventually(t, "the ephemeral container", func() error {
		now, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err == nil {
			err = h.kernel.expectContainer(now, debug.Name, want)
		}
		return err
	})
}

// testRecreated creates a pod again and again, with the longest period and burst. From its start
// on, each uses at most its limit x time, two quotas of the kubelet's period, and the kernel's
// slices.
func (h *hostile) testRecreated(t *testing.T) {
	for i := range 5 {
		pod := podOf(fmt.Sprintf("recreated-%d", i), "", container("main", "8001", "100m"))
		pod.Annotations = map[string]string{api.CPUPeriodAnnotation: "1s", api.CPUBurstAnnotation: `{"policy":"burst","burstPercent":100}`}
		pod = h.runPod(t, pod)
		group := h.kernel.containerGroup(pod, "main")
		begun, before := time.Now(), h.kernel.usage(t, group)
		end := h.kernel.spin(t, group)
		time.Sleep(300 * time.Millisecond)
		h.kernel.usesAtMost(t, group, before, begun, func(life time.Duration) time.Duration {
			return life/10 + 2*10*time.Millisecond + 20*time.Millisecond
		})
		end()
		h.removeOwn(t, pod.Name)
	}
}

// testForced deletes a pod with an exclusive CPU by force. Its containers run until their hook has
// ended, on the shared CPUs and with the quota of their limit.
func (h *hostile) testForced(t *testing.T) {
	pod := podOf("forced", "static", container("main", "8001", "1"))
	pod.Spec.TerminationGracePeriodSeconds = new(int64(30))
	pod.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 20}}}
	pod = h.runPod(t, pod)
	eventually(t, "a removed quota", func() error { return h.kernel.expectSingle(pod, settings{quota: bandwidth.Unlimited}) })
	h.removeOwn(t, pod.Name)
	eventually(t, "a restored quota", func() error { return h.kernel.expectSingle(pod, settings{quota: 100 * time.Millisecond}) })
}
