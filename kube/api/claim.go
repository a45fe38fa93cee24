package api

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/topology"
)

// AllocationError is the reason why a bound pod that asks does not get the CPUs of its allocation.
// Such a pod runs in the shared CPUs.
type AllocationError struct {
	Err error
}

func (e *AllocationError) Error() string {
	return fmt.Sprintf("annotation %s: %v: the pod runs in the shared CPUs; delete it to have it placed again", AllocationAnnotation, e.Err)
}

// Unwrap returns the cause.
func (e *AllocationError) Unwrap() error { return e.Err }

// ErrNoAllocation is wrapped by the error about a bound pod that asks for CPUs but has no
// allocation.
var ErrNoAllocation = errors.New("missing: another scheduler bound the pod, or it did not ask at that time")

// AllocationOf is Keys.AllocationOf without signature checks.
func AllocationOf(pod *corev1.Pod) (*Allocation, error) { return (*Keys)(nil).AllocationOf(pod) }

// AllocationOf returns the valid allocation of a pod. It returns nil without an error if the pod
// has no node yet, has ended, or does not ask for CPUs. It returns nil with an *AllocationError,
// *ValueError or *ContradictionError if the allocation is not valid.
func (k *Keys) AllocationOf(pod *corev1.Pod) (*Allocation, error) {
	e, err := k.entitlementOf(pod)
	if err != nil || e == nil {
		return nil, err
	}
	return &e.allocation, nil
}

// entitlement is an allocation that goes with the pod that it stands on.
type entitlement struct {
	allocation Allocation
	own        []ledger.ContainerAsk // what the pod asks for
	claims     []ledger.ContainerClaim
}

// entitlementOf returns nil and errors as AllocationOf does.
func (k *Keys) entitlementOf(pod *corev1.Pod) (*entitlement, error) {
	if pod.Spec.NodeName == "" || hasEnded(pod) {
		return nil, nil //nolint:nilnil // nothing is a frequent answer, and no failure
	}
	if asks, err := stillAsks(pod); !asks || err != nil {
		return nil, err
	}
	text := pod.Annotations[AllocationAnnotation]
	if text == "" { // a Binding can overwrite a forged one, but not remove it
		return nil, &AllocationError{ErrNoAllocation}
	}
	a, err := DecodeAllocation(text)
	if err != nil {
		return nil, &AllocationError{err}
	}
	if err := k.verify(pod.UID, text); err != nil {
		return nil, &AllocationError{err}
	}
	own := placed(pod)
	claims, err := a.claims(pod, own)
	if err != nil {
		return nil, &AllocationError{err}
	}
	return &entitlement{a, own, claims}, nil
}

// stillAsks is the part of the words that counts after binding.
func stillAsks(pod *corev1.Pod) (bool, error) {
	value, _, err := look(pod, schedulerSpellings())
	if err != nil || value != "true" {
		return false, err
	}
	policy, _, err := look(pod, policySpellings())
	if err != nil {
		return true, nil //nolint:nilerr // a policy that cannot be read is not the policy none
	}
	return policy != PolicyNone, nil
}

func hasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Claim is Keys.Claim without signature checks.
func Claim(pod *corev1.Pod, m *topology.Machine) (ledger.Claim, error) {
	return (*Keys)(nil).Claim(pod, m)
}

// Claim returns what a pod takes out of the books of its node: its allocation and what it requests
// of the shared CPUs, and nothing once it has ended. The machine is nil while it is not known; the
// allocation is then not checked against it. With an error, which is as from [AllocationOf], the
// claim is all that the pod requests, of the shared CPUs.
//
// Of claims that collide, the pod that was bound first keeps its CPUs. With keys it is the one that
// was decided about last. A scheduler decides on CPUs that it sees free, so the earlier pod had
// given them up then: it does not get them back by asking again, or by having its allocation
// restored. Without keys the time of decision cannot be believed.
func (k *Keys) Claim(pod *corev1.Pod, m *topology.Machine) (ledger.Claim, error) {
	claim, _, err := k.ClaimAndAllocation(pod, m)
	return claim, err
}

// ClaimAndAllocation returns the results of Keys.Claim and Keys.AllocationOf at once. It also
// returns an allocation that does not match the machine.
func (k *Keys) ClaimAndAllocation(pod *corev1.Pod, m *topology.Machine) (ledger.Claim, *Allocation, error) {
	claim := ledger.Claim{ID: ledger.PodID(pod.UID), Rank: rank(pod)}
	if hasEnded(pod) {
		return claim, nil, nil
	}
	var allocation *Allocation
	e, err := k.entitlementOf(pod)
	if e != nil {
		allocation = &e.allocation
	}
	if e != nil && m != nil {
		if err = e.allocation.Validate(m); err != nil {
			err = &AllocationError{err}
		}
	}
	if e == nil || err != nil {
		claim.SharedRequest = EffectiveRequest(pod)
		return claim, allocation, err
	}
	if k != nil {
		claim.Rank = e.allocation.Rank()
	}
	claim.Containers = e.claims
	claim.SharedRequest = sharedRequest(pod, e.own)
	return claim, allocation, nil
}

// rank orders pods by the time of binding, in nanoseconds of Unix time (whole seconds, as the API
// server keeps it), and pods that are not bound by that of their creation.
func rank(pod *corev1.Pod) int64 {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.UnixNano()
		}
	}
	return pod.CreationTimestamp.UnixNano()
}

// SameEntitlement reports whether two versions of a bound pod are equal in everything that
// determines its exclusive CPUs: its allocation, whether it asks for CPUs, and the limits that the
// allocation must match. It ignores requests, and costs much less than computing two claims.
func SameEntitlement(before, after *corev1.Pod) bool {
	for _, key := range entitlingKeys() {
		old, had := before.Annotations[key]
		if now, has := after.Annotations[key]; had != has || old != now {
			return false
		}
	}
	return slices.EqualFunc(members(before), members(after), func(x, y member) bool {
		return x.Name == y.Name && x.wholeCPUs() == y.wholeCPUs()
	})
}

// entitlingKeys are the annotations that [AllocationOf] reads.
func entitlingKeys() []string {
	return slices.Concat([]string{AllocationAnnotation}, CPUSetSchedulerKeys(), CPUPolicyKeys())
}
