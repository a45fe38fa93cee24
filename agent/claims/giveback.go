package claims

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"pinfold.dev/pinfold/agent/control"
	"pinfold.dev/pinfold/kube/dra"
)

// giveBack gives back the claims of pods that can never start, after two periods in which they may be
// mended. Otherwise such a pod takes devices from all others at the price of its small request, as
// long as it exists. It does not wait for the kubelet, which asks for nothing while the pod waits for
// something else, such as a volume.
//
// The pod stays: who deleted it would make its controller create another one at once, for the same
// devices. One write removes allocation and reservations, so nothing is left half done, and
// kube-controller-manager reserves no claim that is not allocated. The scheduler may allocate the claim
// to another pod.
func (d *Driver) giveBack(ctx context.Context) (err error) {
	if !d.Offers {
		return nil
	}
	next := map[types.UID]time.Time{}
	for _, pod := range d.Unserved() {
		at, seen := d.next[pod.UID]
		switch {
		case !seen:
			at = d.Now().Add(2 * d.Period)
		case !d.Now().Before(at):
			wait, errPod := d.review(ctx, pod)
			at, err = d.Now().Add(wait), errors.Join(err, errPod)
		}
		next[pod.UID] = at
	}
	d.next = next
	return err
}

// forever is how long a pod without claims for CPUs of this node has none.
const forever = time.Duration(math.MaxInt64)

// review gives back the claims of a pod, if it can never start. It returns when to look again.
func (d *Driver) review(ctx context.Context, pod *corev1.Pod) (wait time.Duration, err error) {
	var claims, own []*resourceapi.ResourceClaim
	for _, name := range dra.ClaimNames(pod) {
		claim, err := d.Client.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return d.Period, err
		}
		if claim.Status.Allocation == nil || d.has(claim) {
			claims = append(claims, claim)
		}
		if d.has(claim) {
			own = append(own, claim)
		}
	}
	if len(own) == 0 {
		return forever, nil
	}
	why := d.Forfeit(pod.UID, func(pod *corev1.Pod, devices []dra.Device) (dra.Request, error) {
		for _, claim := range own {
			if !resourceclaim.IsReservedForPod(pod, claim, true) {
				return dra.Request{}, control.ErrNotYet
			}
		}
		if _, err := dra.PodOf(own); err != nil {
			return dra.Request{}, err
		}
		return dra.Read(pod, claims, d.NodeName, devices)
	})
	for _, claim := range own {
		if why != nil {
			err = errors.Join(err, d.release(ctx, pod, claim, why))
		}
	}
	return d.Period, err
}

// isOwn reports whether a device is one of this node's.
func (d *Driver) isOwn(r resourceapi.DeviceRequestAllocationResult) bool {
	return r.Driver == dra.Driver && r.Pool == d.NodeName
}

func (d *Driver) has(claim *resourceapi.ResourceClaim) bool {
	return claim.Status.Allocation != nil && slices.ContainsFunc(claim.Status.Allocation.Devices.Results, d.isOwn)
}

// release makes a claim one that is not allocated, unless it has changed since it was read, a pod has
// CPUs for it, or another driver may have prepared devices of it.
func (d *Driver) release(ctx context.Context, pod *corev1.Pod, claim *resourceapi.ResourceClaim, why error) error {
	isOther := func(r resourceapi.DeviceRequestAllocationResult) bool { return !d.isOwn(r) }
	if d.Kept()[claim.UID] || slices.ContainsFunc(claim.Status.Allocation.Devices.Results, isOther) {
		return nil
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q},"status":{"allocation":null,"reservedFor":null}}`, claim.UID, claim.ResourceVersion)
	_, err := d.Client.ResourceV1().ResourceClaims(claim.Namespace).Patch(ctx, claim.Name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{FieldManager: dra.Driver}, "status")
	switch {
	case apierrors.IsConflict(err) || apierrors.IsNotFound(err): // it is read again
		return nil
	case err != nil:
		return fmt.Errorf("give back resource claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	d.Tell(pod, fmt.Sprintf("resource claim %s is given back: %v", claim.Name, why))
	return nil
}
