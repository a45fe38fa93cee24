package claims

import (
	"errors"
	"fmt"
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
	clienttesting "k8s.io/client-go/testing"

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

// podWith returns a pod, of which a container uses each claim.
func podWith(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)}}
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: claim, Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: claim}}}})
	}
	return pod
}

// giver returns a driver whose agent has given pods nothing, and never does if their claims cannot be
// read or refused is not nil.
func giver(t *testing.T, client *fake.Clientset, now *time.Time, refused error, pods ...*corev1.Pod) *Driver {
	return New(Options{Client: client, NodeName: "n1", Offers: true, Files: t.TempDir(), Dedup: logdedup.New(slog.New(slog.DiscardHandler), time.Now),
		Now: func() time.Time { return *now }, Period: 15 * time.Second, Tell: func(*corev1.Pod, string) {},
		Unserved: func() []*corev1.Pod { return pods },
		Kept:     func() map[types.UID]bool { return map[types.UID]bool{"kept": true} },
		Forfeit: func(uid types.UID, read func(*corev1.Pod, []dra.Device) (dra.Request, error)) error {
			at := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.UID == uid })
			_, err := read(pods[at], []dra.Device{{Name: "numa-0", CPUs: cpuset.MustParse("0-7")}})
			if errors.Is(err, control.ErrNotYet) || err == nil && refused == nil {
				return nil
			}
			return errors.Join(err, refused)
		}})
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
			now, told := time.Unix(0, 0), []string{}
			client := fake.NewClientset(a, b)
			d := giver(t, client, &now, test.refused, podWith("pod", "a", "b"))
			d.Tell = func(_ *corev1.Pod, text string) { told = append(told, text) }
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

// TestGiveBackOfMany: however many claims a pod names, few are read at once, those of another pod are
// given back at once, and its own one day.
func TestGiveBackOfMany(t *testing.T) {
	names := []string{"z"}
	for i := range 3 * maxReads {
		names = append(names, fmt.Sprint("a", i))
	}
	now, client := time.Unix(0, 0), fake.NewClientset(claimOf("z", "many"), claimOf("b", "few"))
	d := giver(t, client, &now, errors.New("its requests are too small"), podWith("many", names...), podWith("few", "b"))
	must.Do(t, d.giveBack(t.Context()))
	now = now.Add(2 * d.Period)
	var free []string
	for range 8 {
		client.ClearActions()
		must.Do(t, d.giveBack(t.Context()))
		for _, action := range client.Actions() {
			if patch, is := action.(clienttesting.PatchAction); is {
				free = append(free, patch.GetName())
			}
		}
		if reads := len(client.Actions()); reads > maxReads || !slices.Contains(free, "b") {
			t.Errorf("%d requests, and claims %s are given back", reads, free)
		}
		now = now.Add(d.Period)
	}
	if want := []string{"b", "z"}; !slices.Equal(free, want) {
		t.Errorf("claims %s are given back, want %s", free, want)
	}
}
