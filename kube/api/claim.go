package api

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// AllocationError is the reason why a bound pod that asks for CPUs does not get those of its
// allocation. Such a pod runs in the shared CPUs.
type AllocationError struct {
	Err error
}

func (e *AllocationError) Error() string {
	return fmt.Sprintf("annotation %s: %s: the pod runs in the shared CPUs; delete it to have it placed again", AllocationAnnotation, e.Cause())
}

// Cause returns what is wrong with the allocation.
func (e *AllocationError) Cause() string { return Shorten(e.Err.Error(), longestCause) }

// Unwrap returns the cause.
func (e *AllocationError) Unwrap() error { return e.Err }

// AllocationOf returns the valid allocation of a pod, without a check of its signature. It returns
// nil without an error if the pod has no node yet, has ended, or does not ask for CPUs. It returns
// nil with an error if the allocation or a setting is not valid; about the allocation it is an
// *AllocationError.
func AllocationOf(pod *corev1.Pod) (*Allocation, error) {
	e, err := (*Keys)(nil).entitlementOf(pod)
	if err != nil || e == nil {
		return nil, err
	}
	return &e.allocation, nil
}

// Given is what the agent of a node has allocated itself. Nil stands for a node whose pods get
// their CPUs from the scheduler.
type Given struct {
	// Allocates is set if pods that ask get their CPUs from the agent. Allocations of a scheduler
	// do not count there.
	Allocates bool
	// Pods are the allocations by the UID of the pod. Only the agent writes them, so they need no
	// signature. Pods that were given CPUs keep them when the node's pods get theirs from the
	// scheduler again.
	Pods map[types.UID]Allocation
}

// ClaimAndAllocation is Keys.ClaimAndAllocation for a pod of the node. A pod that asks and was not
// given anything yet has no allocation, and no error.
func (g *Given) ClaimAndAllocation(k *Keys, pod *corev1.Pod, m *topology.Machine) (ledger.Claim, *Allocation, error) {
	if g == nil {
		return k.ClaimAndAllocation(pod, m)
	}
	given, ok := g.Pods[pod.UID]
	if !ok && !g.Allocates {
		return k.ClaimAndAllocation(pod, m)
	}
	var e *entitlement
	if ok && given.Concerns(pod) && pod.Spec.NodeName != "" && !HasEnded(pod) {
		e = given.asGiven(pod)
	}
	return claimOf(pod, m, e, nil, true)
}

// Concerns reports whether a pod still asks for what it was given. Claims ask for as long as the
// agent has not given their CPUs back.
func (a Allocation) Concerns(pod *corev1.Pod) bool {
	asks, _ := Asks(pod)
	return asks || len(a.Claims) > 0
}

// asGiven returns what the pod holds, whether or not its limits are still the same: they may be
// changing, and only the agent decides when it gives something else.
func (a Allocation) asGiven(pod *corev1.Pod) *entitlement {
	e := &entitlement{allocation: a}
	counts := newCounts(pod)
	for _, m := range members(pod) {
		at := slices.IndexFunc(a.Containers, func(c ContainerAllocation) bool { return c.Name == m.Name })
		if at < 0 {
			continue
		}
		c := &a.Containers[at]
		claim := ledger.ContainerClaim{Name: m.Name, Role: m.role, Policy: a.Policy, Limit: c.CPUs.Len(), Request: counts.own(m), CPUs: c.CPUs}
		if a.Policy == placement.StaticBurst {
			claim.NUMANodes, claim.Limit = c.NUMANodes, max(1, int(m.wholeCPUs()))
		}
		e.own = append(e.own, ledger.ContainerAsk{Name: m.Name, Role: m.role, CPUs: claim.Limit, Request: claim.Request})
		e.claims = append(e.claims, claim)
	}
	return e
}

// CPUs returns the CPUs of all containers.
func (a Allocation) CPUs() (all cpuset.Set) {
	for _, c := range a.Containers {
		all = all.Union(c.CPUs)
	}
	return all
}

// Claim returns the claim of a pod about which nothing but the allocation is known. Containers may
// have the same CPUs, if some are init containers.
func (a Allocation) Claim(pod types.UID) ledger.Claim {
	claim, all := ledger.Claim{ID: ledger.PodID(pod), Rank: a.Rank()}, a.CPUs()
	if a.Policy == placement.Static {
		claim.Containers = []ledger.ContainerClaim{{Policy: a.Policy, Limit: all.Len(), CPUs: all}}
	}
	return claim
}

// Matches returns an error unless the allocation is what a pod asks for, and its requests cover it.
func (a Allocation) Matches(pod *corev1.Pod) error {
	if len(a.Claims) > 0 {
		return a.isRequested(pod)
	}
	own := placed(pod)
	if _, err := a.claims(pod, own); err != nil {
		return err
	}
	return Covers(&ledger.Ask{Policy: a.Policy, Containers: own})
}

// Covers returns an error unless each container requests all exclusive CPUs that it asks for. If it
// does, they are there: schedulers bind no more requests to a node than it has.
func Covers(ask *ledger.Ask) error {
	for _, c := range ask.Containers {
		if need := ledger.MilliCPU(c.CPUs) * 1000; ask.Policy != placement.StaticBurst && c.Request < need {
			return fmt.Errorf("requests.cpu must equal limits.cpu: container %s requests %v of its %d", c.Name, c.Request, c.CPUs)
		}
	}
	return nil
}

// isRequested returns an error unless the containers request the CPUs of the claims, too.
func (a Allocation) isRequested(pod *corev1.Pod) error {
	need := map[string]int{}
	for _, c := range a.Containers {
		need[c.Name] = c.CPUs.Len()
	}
	return ClaimsRequested(pod, a.Claims, a.CPUs().Len(), need) // init containers run on CPUs of others
}

// ClaimsRequested returns an error unless the containers of a pod, and the pod as schedulers count it,
// request as many CPUs as they get for resource claims, or the scheduler has counted all CPUs of the
// claims as requests.
func ClaimsRequested(pod *corev1.Pod, claims []ClaimRef, all int, cpus map[string]int) error {
	if countedFor(pod, claims) >= ledger.MilliCPU(all)*1000 {
		return nil
	}
	counts := newCounts(pod)
	for _, m := range members(pod) {
		if has, need := counts.own(m), cpus[m.Name]; has < ledger.MilliCPU(need)*1000 {
			return fmt.Errorf("container %s requests %v CPUs, and its resource claims ask for %d: "+
				"set its resources.requests.cpu to %[3]d, because schedulers count requests", m.Name, has, need)
		}
	}
	if has := EffectiveRequest(pod); has < ledger.MilliCPU(all)*1000 { // of init containers, the largest request counts
		return fmt.Errorf("the pod requests %v CPUs, and its resource claims ask for %d: "+
			"let init containers use the requests of other containers' claims", has, all)
	}
	return nil
}

// countedFor returns what the scheduler has counted for claims as requests of the pod, as it does
// with the feature DRANodeAllocatableResources.
func countedFor(pod *corev1.Pod, claims []ClaimRef) (sum ledger.MilliCPU) {
	for _, s := range pod.Status.NodeAllocatableResourceClaimStatuses {
		for _, m := range s.Mapping {
			if m.Name == corev1.ResourceCPU && m.Quantity != nil && hasName(claims, s.ResourceClaimName) {
				sum += MilliCPU(corev1.ResourceList{m.Name: *m.Quantity})
			}
		}
	}
	return sum
}

func hasName(claims []ClaimRef, name string) bool {
	return slices.ContainsFunc(claims, func(c ClaimRef) bool { return c.Name == name })
}

// ClaimOf returns the claim of a pod that was given the allocation.
func (a Allocation) ClaimOf(pod *corev1.Pod) ledger.Claim {
	claim, _, _ := claimOf(pod, nil, a.asGiven(pod), nil, true)
	return claim
}

// sharedRequest returns what the pod requests in addition to its placed containers own.
func (a Allocation) sharedRequest(pod *corev1.Pod, own []ledger.ContainerAsk) ledger.MilliCPU {
	if len(a.Claims) > 0 {
		without := *pod
		without.Status.NodeAllocatableResourceClaimStatuses = slices.DeleteFunc(slices.Clone(pod.Status.NodeAllocatableResourceClaimStatuses),
			func(s corev1.NodeAllocatableResourceClaimStatus) bool { return hasName(a.Claims, s.ResourceClaimName) })
		pod = &without
	}
	return sharedRequest(pod, own)
}

// entitlement is an allocation that is valid for its pod.
type entitlement struct {
	allocation Allocation
	own        []ledger.ContainerAsk // the containers to place
	claims     []ledger.ContainerClaim
}

// entitlementOf returns nil and errors as AllocationOf does.
func (k *Keys) entitlementOf(pod *corev1.Pod) (*entitlement, error) {
	if pod.Spec.NodeName == "" || HasEnded(pod) {
		return nil, nil //nolint:nilnil // no entitlement is frequent, and not an error
	}
	if asks, err := Asks(pod); !asks || err != nil {
		return nil, err
	}
	text := pod.Annotations[AllocationAnnotation]
	if text == "" { // binding can set a forged one to "", but not remove it
		return nil, &AllocationError{errors.New("missing: another scheduler bound the pod, or it did not ask at that time")}
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

// Holds returns an error unless what the kubelet has allocated to the pod's containers covers the
// exclusive CPUs. While a resize waits, schedulers count that, and not what the pod asks for.
func (a Allocation) Holds(pod *corev1.Pod) error {
	if countedFor(pod, a.Claims) > 0 {
		return nil
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		for _, c := range a.Containers {
			if has := status.AllocatedResources; c.Name == status.Name && has != nil && MilliCPU(has) < ledger.MilliCPU(c.CPUs.Len())*1000 {
				return fmt.Errorf("the kubelet has allocated %v of %d CPUs to container %s", MilliCPU(has), c.CPUs.Len(), c.Name)
			}
		}
	}
	return nil
}

// Asks reports whether a bound pod asks for CPUs, still. With an error it does not: the value of an
// annotation is not valid.
func Asks(pod *corev1.Pod) (bool, error) {
	value, _, err := lookUp(pod, schedulerAliases())
	if err != nil || value != "true" {
		return false, err
	}
	policy, _, err := lookUp(pod, policyAliases())
	if err != nil {
		return true, nil //nolint:nilerr // an invalid policy is not the policy none
	}
	return policy != PolicyNone, nil
}

// HasEnded reports whether all containers of a pod have ended for good.
func HasEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Claim is Keys.Claim without signature checks.
func Claim(pod *corev1.Pod, m *topology.Machine) (ledger.Claim, error) {
	return (*Keys)(nil).Claim(pod, m)
}

// Claim returns a pod's entry in the books of its node: its allocation and its requests of the
// shared CPUs. A pod that has ended has neither. The allocation is not checked against the machine
// if m is nil, which stands for an unknown machine. Errors are as from [AllocationOf]; the claim
// then counts all requests of the pod as requests of the shared CPUs.
//
// Of claims that collide, the pod that was bound first keeps its CPUs. With keys, the pod with the
// latest decision keeps them: a scheduler assigns only CPUs that it sees as free, so the earlier
// pod must have released them. The earlier pod does not get them back by asking again or by
// restoring its allocation. Without keys, the time of the decision cannot be trusted.
func (k *Keys) Claim(pod *corev1.Pod, m *topology.Machine) (ledger.Claim, error) {
	claim, _, err := k.ClaimAndAllocation(pod, m)
	return claim, err
}

// ClaimAndAllocation returns the result of Keys.Claim and the valid allocation, even if it does not
// match the machine.
func (k *Keys) ClaimAndAllocation(pod *corev1.Pod, m *topology.Machine) (ledger.Claim, *Allocation, error) {
	e, err := k.entitlementOf(pod)
	return claimOf(pod, m, e, err, k != nil)
}

// claimOf returns the claim of a pod with an entitlement, which is nil if it has none because of
// the error. The time of the decision ranks it if that can be trusted.
func claimOf(pod *corev1.Pod, m *topology.Machine, e *entitlement, err error, trusted bool) (ledger.Claim, *Allocation, error) {
	claim := ledger.Claim{ID: ledger.PodID(pod.UID), Rank: rank(pod)}
	if HasEnded(pod) {
		return claim, nil, nil
	}
	var allocation *Allocation
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
	if trusted {
		claim.Rank = e.allocation.Rank()
	}
	claim.Containers = e.claims
	claim.SharedRequest = e.allocation.sharedRequest(pod, e.own)
	return claim, allocation, nil
}

// rank returns the time of binding in nanoseconds of Unix time (whole seconds, as stored by the API
// server), or the time of creation for pods that are not bound.
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
	for _, key := range slices.Concat([]string{AllocationAnnotation}, CPUSetSchedulerKeys(), CPUPolicyKeys()) {
		old, had := before.Annotations[key]
		if now, has := after.Annotations[key]; had != has || old != now {
			return false
		}
	}
	return slices.EqualFunc(members(before), members(after), func(x, y member) bool {
		return x.Name == y.Name && x.wholeCPUs() == y.wholeCPUs()
	})
}
