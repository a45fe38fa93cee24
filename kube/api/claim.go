package api

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// Allocations are what the agent of a node has allocated to its pods, by their UIDs. Nil stands for an
// agent that allocates nothing, such as one that only observes.
type Allocations map[types.UID]Allocation

// Claim returns a pod's entry in the books of its node: its allocation and its requests of the shared
// CPUs. A pod that has ended has neither. A pod that asks, and has no allocation yet, has none without
// an error. The allocation is not checked against the machine if m is nil, which stands for an unknown
// machine. With an error, the claim counts all requests of the pod as requests of the shared CPUs.
//
// Of claims that collide, the latest decision keeps its CPUs: an agent allocates only CPUs that it sees
// as free, so the earlier pod must have given them up.
func (a Allocations) Claim(pod *corev1.Pod, m *topology.Machine) (ledger.Claim, *Allocation, error) {
	var e *entitlement
	if allocated, ok := a[pod.UID]; ok && allocated.Concerns(pod) && pod.Spec.NodeName != "" && !HasEnded(pod) {
		e = allocated.entitles(pod)
	}
	return claimOf(pod, m, e)
}

// Concerns reports whether a pod still asks for what was allocated to it. Claims ask for as long as
// the agent has not given their CPUs back.
func (a Allocation) Concerns(pod *corev1.Pod) bool {
	asks, _ := Asks(pod)
	return asks || len(a.Claims) > 0
}

// entitles returns what the pod holds, whether or not its limits are still the same: they may be
// changing, and only the agent decides when it allocates something else.
func (a Allocation) entitles(pod *corev1.Pod) *entitlement {
	e := &entitlement{allocation: a}
	counts := newCounts(pod)
	parts := make(map[string]*ContainerAllocation, len(a.Containers))
	for i := range a.Containers {
		parts[a.Containers[i].Name] = &a.Containers[i]
	}
	for _, m := range members(pod) {
		c := parts[m.Name]
		if c == nil {
			continue
		}
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

// Matches returns an error unless the allocation is what a pod asks for. Requests must cover what was
// allocated to claims.
func (a Allocation) Matches(pod *corev1.Pod) error {
	if len(a.Claims) > 0 {
		return a.isRequested(pod)
	}
	_, err := a.claims(pod, placed(pod))
	return err
}

// Covers reports whether each container requests all exclusive CPUs that it asks for. If it does, they
// are there under every scheduler: none binds more requests to a node than it has.
func Covers(ask *ledger.Ask) bool {
	return ask.Policy == placement.StaticBurst || !slices.ContainsFunc(ask.Containers, func(c ledger.ContainerAsk) bool {
		return c.Request < ledger.MilliCPU(c.CPUs)*1000
	})
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
		if request, need := counts.own(m), cpus[m.Name]; request < ledger.MilliCPU(need)*1000 {
			return fmt.Errorf("container %s requests %v CPUs, and its resource claims ask for %d: "+
				"set its resources.requests.cpu to %[3]d, because schedulers count requests", m.Name, request, need)
		}
	}
	if request := EffectiveRequest(pod); request < ledger.MilliCPU(all)*1000 { // of init containers, the largest request counts
		return fmt.Errorf("the pod requests %v CPUs, and its resource claims ask for %d: "+
			"let init containers use the requests of other containers' claims", request, all)
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

// ClaimOf returns the claim of a pod with the allocation.
func (a Allocation) ClaimOf(pod *corev1.Pod) ledger.Claim {
	claim, _, _ := claimOf(pod, nil, a.entitles(pod))
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

// Holds returns an error unless what the kubelet has allocated to the pod's containers covers the
// exclusive CPUs. While a resize waits, schedulers count that, and not what the pod asks for.
func (a Allocation) Holds(pod *corev1.Pod) error {
	if countedFor(pod, a.Claims) > 0 {
		return nil
	}
	for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		for _, c := range a.Containers {
			if request := status.AllocatedResources; c.Name == status.Name && request != nil && MilliCPU(request) < ledger.MilliCPU(c.CPUs.Len())*1000 {
				return fmt.Errorf("the kubelet has allocated %v of %d CPUs to container %s", MilliCPU(request), c.CPUs.Len(), c.Name)
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

// claimOf returns the claim of a pod with an entitlement, or nil.
func claimOf(pod *corev1.Pod, m *topology.Machine, e *entitlement) (ledger.Claim, *Allocation, error) {
	claim := ledger.Claim{ID: ledger.PodID(pod.UID)}
	if HasEnded(pod) {
		return claim, nil, nil
	}
	if e == nil {
		claim.SharedRequest = EffectiveRequest(pod)
		return claim, nil, nil
	}
	if m != nil {
		if err := e.allocation.Validate(m); err != nil {
			claim.SharedRequest = EffectiveRequest(pod)
			return claim, &e.allocation, fmt.Errorf("its CPUs: %s: the pod runs in the shared CPUs", Shorten(err.Error(), longestCause))
		}
	}
	claim.Rank = e.allocation.Rank()
	claim.Containers = e.claims
	claim.SharedRequest = e.allocation.sharedRequest(pod, e.own)
	return claim, &e.allocation, nil
}

// BoundAt returns the time of binding in nanoseconds of Unix time (whole seconds, as stored by the API
// server), or [math.MaxInt64] if none is recorded.
func BoundAt(pod *corev1.Pod) int64 {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.UnixNano()
		}
	}
	return math.MaxInt64
}

// CompareBound orders pods as they were bound, as far as the API server tells: by whole seconds, and
// within a second by the versions of their objects. Those that are not known to be bound come last.
func CompareBound(a, b *corev1.Pod) int {
	at, bt := BoundAt(a), BoundAt(b)
	if at != bt || at == math.MaxInt64 {
		return cmp.Compare(at, bt)
	}
	order, _ := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return order
}

// AskAlike reports whether two versions of a bound pod are equal in everything that determines which
// exclusive CPUs it asks for: whether it asks, and its limits. It ignores requests.
func AskAlike(before, after *corev1.Pod) bool {
	for _, key := range slices.Concat(CPUSetSchedulerKeys(), CPUPolicyKeys()) {
		old, wasSet := before.Annotations[key]
		if now, isSet := after.Annotations[key]; wasSet != isSet || old != now {
			return false
		}
	}
	return slices.EqualFunc(members(before), members(after), func(x, y member) bool {
		return x.Name == y.Name && x.wholeCPUs() == y.wholeCPUs()
	})
}
