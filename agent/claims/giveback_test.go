package claims

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/internal/logdedup"
	"pinfold.dev/pinfold/kube/dra"
	"pinfold.dev/pinfold/test/must"
)

// claimOf returns a claim for 7 CPUs of node n1 that is reserved for pods.
func claimOf(name string, pods ...string) *resourceapi.ResourceClaim {
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	claim.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{
		{Request: "cpus", Driver: dra.Driver, Pool: "n1", Device: "numa-0", ConsumedCapacity: map[resourceapi.QualifiedName]resource.Quantity{dra.Capacity: resource.MustParse("7")}}}}}
	for _, pod := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID(pod)})
	}
	return claim
}

// TestGiveBack checks of which claims of a pod that cannot start the devices become free, and when.
func TestGiveBack(t *testing.T) {
	first := func(c *resourceapi.ResourceClaim) *resourceapi.DeviceRequestAllocationResult {
		return &c.Status.Allocation.Devices.Results[0]
	}
	never := errors.New("its requests are too small")
	for name, test := range map[string]struct {
		change  func(a, b *resourceapi.ResourceClaim) // of the pod
		refused error                                 // of what can be read
		free    string
		why     string
	}{
		"it may start":             {},
		"requests":                 {refused: never, free: "a b", why: never.Error()},
		"one is prepared":          {func(a, _ *resourceapi.ResourceClaim) { a.UID = "kept" }, never, "b", never.Error()},
		"one is another node's":    {func(a, _ *resourceapi.ResourceClaim) { first(a).Pool = "n2" }, never, "b", never.Error()},
		"one is another pod's":     {func(a, _ *resourceapi.ResourceClaim) { a.Status.ReservedFor[0].UID = "other" }, never, "", ""},
		"the agent was killed":     {func(a, _ *resourceapi.ResourceClaim) { a.Status = resourceapi.ResourceClaimStatus{} }, nil, "b", "it is not allocated"},
		"several pods":             {func(a, _ *resourceapi.ResourceClaim) { a.Status = claimOf("a", "pod", "other").Status }, nil, "a b", "2 pods or others use it"},
		"of a device that is gone": {func(a, _ *resourceapi.ResourceClaim) { first(a).Device = "numa-9" }, nil, "a b", "has no device numa-9"},
		"another driver's, only":   {func(a, b *resourceapi.ResourceClaim) { first(a).Driver, first(b).Driver = "gpu", "gpu" }, never, "", ""},
		"another driver's, too": {func(a, _ *resourceapi.ResourceClaim) {
			a.Status.Allocation.Devices.Results = append(a.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{Driver: "gpu"})
		}, never, "b", never.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := claimOf("a", "pod"), claimOf("b", "pod")
			if test.change != nil {
				test.change(a, b)
			}
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "default", UID: "pod"}}
			for _, claim := range []string{"a", "b"} {
				pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: claim, Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: claim}}}})
			}
			now, told := time.Unix(0, 0), []string{}
			client := fake.NewClientset(a, b)
			d := New(Options{Client: client, NodeName: "n1", Offers: true, Files: t.TempDir(), Dedup: logdedup.New(slog.New(slog.DiscardHandler), time.Now),
				Now: func() time.Time { return now }, Period: 15 * time.Second,
				Unserved: func() []*corev1.Pod { return []*corev1.Pod{pod} },
				Kept:     func() map[types.UID]bool { return map[types.UID]bool{"kept": true} },
				Forfeit: func(_ types.UID, read func(*corev1.Pod, []dra.Device) (dra.Request, error)) error {
					_, err := read(pod, []dra.Device{{Name: "numa-0", CPUs: cpuset.MustParse("0-7")}})
					if errors.Is(err, control.ErrNotYet) || err == nil && test.refused == nil {
						return nil
					}
					return errors.Join(err, test.refused)
				},
				Tell: func(_ *corev1.Pod, text string) { told = append(told, text) }})
			free := func() string {
				must.Do(t, d.giveBack(t.Context()))
				var free []string
				for _, before := range []*resourceapi.ResourceClaim{a, b} {
					now := must.Get(client.ResourceV1().ResourceClaims("default").Get(t.Context(), before.Name, metav1.GetOptions{}))(t)
					if before.Status.Allocation != nil && now.Status.Allocation == nil && now.Status.ReservedFor == nil {
						free = append(free, now.Name)
					}
				}
				return strings.Join(free, " ")
			}
			if got := free(); got != "" {
				t.Errorf("claims %s are given back at once", got)
			}
			now = now.Add(29 * time.Second)
			if got := free(); got != "" {
				t.Errorf("claims %s are given back while the pod may be mended", got)
			}
			now = now.Add(time.Second)
			if got := free(); got != test.free || slices.ContainsFunc(told, func(text string) bool { return !strings.Contains(text, test.why) }) ||
				len(told) != len(strings.Fields(test.free)) {
				t.Errorf("claims %q are given back, want %q; the pod is told %q", got, test.free, told)
			}
		})
	}
}
