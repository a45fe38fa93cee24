package claims

import (
	"context"
	"errors"
	"fmt"
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
	now, looks, due := d.Now(), map[types.UID]*look{}, []*look(nil)
	for _, pod := range d.Unserved() {
		l := d.looks[pod.UID]
		if l == nil {
			l = &look{due: now.Add(2 * d.Period)}
		}
		l.pod, looks[pod.UID] = pod, l
		if !now.Before(l.due) {
			due = append(due, l)
		}
	}
	d.looks = looks
	for _, l := range due {
		err = errors.Join(err, d.review(ctx, l, max(1, maxReads/len(due))))
	}
	return err
}

// maxReads is how many claims are read in a period. A pod may name any number, and delays no other pod.
const maxReads = 128

// look is one at the claims of a pod that has no CPUs for any.
type look struct {
	pod    *corev1.Pod
	due    time.Time
	left   []string                     // the names of claims to be read
	claims []*resourceapi.ResourceClaim // that have been read: of this node, or not allocated
}

// review reads some claims of a pod, and after the last one gives them back if the pod can never start.
func (d *Driver) review(ctx context.Context, l *look, reads int) (err error) {
	if l.left == nil {
		l.left, l.claims = slices.Compact(slices.Sorted(slices.Values(dra.ClaimNames(l.pod)))), nil
	}
	for ; len(l.left) > 0 && reads > 0; reads-- {
		claim, err := d.Client.ResourceV1().ResourceClaims(l.pod.Namespace).Get(ctx, l.left[0], metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err == nil && (claim.Status.Allocation == nil || d.has(claim)) {
			l.claims = append(l.claims, &resourceapi.ResourceClaim{ // the rest may be large
				ObjectMeta: metav1.ObjectMeta{Name: claim.Name, Namespace: claim.Namespace, UID: claim.UID, ResourceVersion: claim.ResourceVersion},
				Status:     resourceapi.ResourceClaimStatus{Allocation: claim.Status.Allocation, ReservedFor: claim.Status.ReservedFor}})
		}
		l.left = l.left[1:]
	}
	if len(l.left) > 0 {
		return nil
	}
	l.left, l.due = nil, d.Now().Add(d.Period)
	own := slices.DeleteFunc(slices.Clone(l.claims), func(claim *resourceapi.ResourceClaim) bool { return !d.has(claim) })
	if len(own) == 0 {
		return nil
	}
	why := d.Forfeit(l.pod.UID, func(pod *corev1.Pod, devices []dra.Device) (dra.Request, error) {
		for _, claim := range own {
			if !resourceclaim.IsReservedForPod(pod, claim, true) {
				return dra.Request{}, control.ErrNotYet
			}
		}
		if _, err := dra.PodOf(own); err != nil {
			return dra.Request{}, err
		}
		return dra.Read(pod, l.claims, d.NodeName, devices)
	})
	for _, claim := range own {
		if why != nil {
			err = errors.Join(err, d.release(ctx, l.pod, claim, why))
		}
	}
	return err
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
