package allocate

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"pinfold.dev/pinfold/agent/control/groups"
	"pinfold.dev/pinfold/agent/control/pods"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/kube/api"
	"pinfold.dev/pinfold/kube/dra"
)

// Claim allocates to a pod the CPUs that its resource claims ask for. They stay its own until Unclaim. If
// it has them already, nothing changes.
func (c *Controller) Claim(r *groups.Round, pod types.UID, request dra.Request) error {
	at := slices.IndexFunc(r.Pods, func(s pods.Pod) bool { return s.Object.UID == pod })
	if at < 0 || r.Pods[at].Departed || api.HasEnded(r.Pods[at].Object) {
		return errors.New("the pod does not run on this node, as far as its agent knows yet")
	}
	s := &r.Pods[at]
	given, has := c.allocated[pod]
	if has && slices.Equal(given.Claims, request.Claims) {
		return nil
	}
	switch why := c.refusal(r, s, &request); {
	case why != nil:
		return why
	case has:
		return errors.New("the pod has CPUs for other claims")
	}
	_, all := request.CPUs()
	if err := c.aboveCeiling(r, s.Object, all); err != nil {
		return err
	}
	c.readAll(r)
	n := node{r, c.name, c.books(r, len(request.Parts))}
	var allocation api.Allocation
	err := c.withBorrowed(n, pod, false, func() (err error) {
		allocation, err = n.place(s, request)
		return err
	})
	if err != nil {
		return err
	}
	return c.put(n, at, allocation)
}

// Prepared records whether the claims of a pod were served, and why not.
func (c *Controller) Prepared(pod types.UID, err error) (changed bool) {
	last := c.unprepared[pod]
	if delete(c.unprepared, pod); err != nil {
		c.unprepared[pod] = err
	}
	return fmt.Sprint(last) != fmt.Sprint(err)
}

// refusal returns why a pod does not get what its claims ask for, whatever CPUs become free, or nil.
func (c *Controller) refusal(r *groups.Round, s *pods.Pod, request *dra.Request) error {
	asks, err := api.Asks(s.Object)
	cpus, all := request.CPUs()
	ceiling := c.ceilings.For(s.Object.Namespace).ExclusiveCPUs
	switch {
	case c.lapsed[s.Object.UID].why != nil:
		return c.lapsed[s.Object.UID].why
	case asks || err != nil:
		return fmt.Errorf("the pod asks for CPUs by annotation (%s), too: remove the annotation or the claims", api.CPUSetSchedulerAnnotation)
	case s.Annotations.Class == qos.BE:
		return fmt.Errorf("the pod is a batch pod (label %s), and these run in the shared CPUs: remove the label or the claims", api.QoSLabel)
	}
	return cmp.Or(belongsToOther(s.Object, c.claimants(r)), api.ClaimsRequested(s.Object, request.Claims, all, cpus), ceiling.CheckPod(all))
}

// Forfeit decides that one of Unserved never gets CPUs for its claims, and returns why: because of
// unreadable, or of what they ask for. It returns nil if it may.
func (c *Controller) Forfeit(r *groups.Round, pod types.UID, request dra.Request, unreadable error) error {
	s := &r.Pods[slices.IndexFunc(r.Pods, func(s pods.Pod) bool { return s.Object.UID == pod })]
	if why := cmp.Or(unreadable, c.refusal(r, s, &request)); why != nil && c.lapsed[pod].why == nil {
		c.lapsed[pod] = lapse{why: fmt.Errorf("the pod cannot start any more, delete it: %w", why)}
	}
	return c.lapsed[pod].why
}

// Unserved returns the pods with claims that were given no CPUs for any, and whose containers cannot
// run on some: none was created, or the pod was refused CPUs. It does not rely on what is remembered
// alone.
func (c *Controller) Unserved(r *groups.Round) (unserved []*corev1.Pod) {
	for i := range r.Pods {
		s := &r.Pods[i]
		lapsed, refused := c.lapsed[s.Object.UID]
		served := len(c.allocated[s.Object.UID].Claims)+len(lapsed.claims) > 0
		if !served && !s.Departed && !api.HasEnded(s.Object) && (refused || !mayRun(r, s)) && len(dra.ClaimNames(s.Object)) > 0 {
			unserved = append(unserved, s.Object)
		}
	}
	return unserved
}

// mayRun reports whether a container of a pod was created.
func mayRun(r *groups.Round, s *pods.Pod) bool {
	status := &s.Object.Status
	return status.Phase != corev1.PodPending || r.Runs(s.Plan.ID) ||
		slices.ContainsFunc(slices.Concat(status.InitContainerStatuses, status.ContainerStatuses), func(s corev1.ContainerStatus) bool { return s.ContainerID != "" })
}

// place chooses the CPUs of each part, the largest first.
func (n node) place(s *pods.Pod, request dra.Request) (api.Allocation, error) {
	parts := slices.Clone(request.Parts)
	slices.SortStableFunc(parts, func(a, b dra.Part) int { return cmp.Compare(b.CPUs, a.CPUs) })
	cpus := map[string]cpuset.Set{}
	owner := func(container string) string { return cmp.Or(request.Shares[container], container) }
	all := api.Allocation{Claims: request.Claims} // without the CPUs
	for _, container := range s.Plan.Containers {
		if slices.ContainsFunc(parts, func(p dra.Part) bool { return p.Container == owner(container.Name) }) {
			all.Containers = append(all.Containers, api.ContainerAllocation{Name: container.Name})
		}
	}
	shared := all.ClaimOf(s.Object).SharedRequest
	allocation := func() api.Allocation {
		a := n.allocation(s, func(container string) cpuset.Set { return cpus[owner(container)] })
		a.Claims = request.Claims
		return a
	}
	for _, part := range parts {
		claim := allocation().ClaimOf(s.Object)
		claim.SharedRequest = shared
		n.books.Add(claim)
		within := allowed(n.Round, s, part.Within)
		if within.IsEmpty() {
			return api.Allocation{}, fmt.Errorf("device %s: pods of its QoS class may use none of its CPUs", part.Result.Device)
		}
		decision, err := n.books.Decide(ledger.Ask{FullCores: part.FullCores, Within: within,
			Containers: []ledger.ContainerAsk{{Name: part.Container, CPUs: part.CPUs}}})
		if err != nil {
			return api.Allocation{}, fmt.Errorf("device %s: %w", part.Result.Device, err)
		}
		cpus[part.Container] = cpus[part.Container].Union(decision.CPUs)
	}
	return allocation(), nil
}

// Unclaim takes back what was allocated to pods for claims.
func (c *Controller) Unclaim(claims ...types.UID) {
	for uid, a := range c.allocated {
		if slices.ContainsFunc(a.Claims, func(ref api.ClaimRef) bool { return slices.Contains(claims, ref.UID) }) {
			c.takeBack(uid)
			c.changed = true
		}
	}
}

// Claimed returns the claims of pods that have, or had, CPUs for these.
func (c *Controller) Claimed() map[types.UID]bool {
	uids := map[types.UID]bool{}
	add := func(claims []api.ClaimRef) {
		for _, claim := range claims {
			uids[claim.UID] = true
		}
	}
	for _, a := range c.allocated {
		add(a.Claims)
	}
	for _, l := range c.lapsed {
		add(l.claims)
	}
	return uids
}

// claimants returns the pods that have the CPUs of claims, by claim.
func (c *Controller) claimants(r *groups.Round) map[types.NamespacedName]types.UID {
	pods := map[types.NamespacedName]types.UID{}
	for i := range r.Pods {
		pod := r.Pods[i].Object
		for _, claim := range c.allocated[pod.UID].Claims {
			pods[types.NamespacedName{Namespace: pod.Namespace, Name: claim.Name}] = pod.UID
		}
	}
	return pods
}

// belongsToOther returns an error if another pod has the CPUs of one of a pod's claims.
func belongsToOther(pod *corev1.Pod, claimants map[types.NamespacedName]types.UID) error {
	if len(claimants) == 0 || len(pod.Spec.ResourceClaims) == 0 {
		return nil
	}
	for _, name := range dra.ClaimNames(pod) {
		if owner := claimants[types.NamespacedName{Namespace: pod.Namespace, Name: name}]; owner != "" && owner != pod.UID {
			return fmt.Errorf("the CPUs of resource claim %s belong to another pod (%s): %s", name, owner, dra.OneClaimPerPod)
		}
	}
	return nil
}

// Devices returns the devices of a machine, with as many CPUs as all claims together can have of
// each: those that are not reserved or isolated, and that pods that ask by annotation neither have
// nor request of their NUMA nodes.
func (c *Controller) Devices(r *groups.Round, by dra.Grouping) []dra.Device {
	m := r.Index.Machine()
	unusable := r.Books.ReservedCPUs.Union(m.Online().Difference(m.Balanced()))
	taken := unusable
	for _, a := range c.allocated {
		for _, container := range a.Containers {
			if len(a.Claims) == 0 {
				taken = taken.Union(container.CPUs)
			}
		}
	}
	online := m.Balanced().Len()
	room := min(online-r.Books.MinShared, int((ledger.MilliCPU(online)*1000-r.Books.Reserved)/1000)) - taken.Difference(unusable).Len() - c.confined(r, m.Online())
	devices := dra.Devices(m, by)
	for i := range devices {
		d := &devices[i]
		d.Size = max(0, min(room, d.CPUs.Difference(taken).Len()-c.confined(r, d.CPUs)))
	}
	return devices
}

// confined returns how many CPUs stay shared for containers that are confined to NUMA nodes within some
// CPUs: as many as they request, and at least one of their nodes.
func (c *Controller) confined(r *groups.Round, within cpuset.Set) int {
	var sum ledger.MilliCPU
	least, alone := 0, map[topology.NUMAID]bool{}
	for i := range r.Pods {
		for _, container := range c.allocated[r.Pods[i].Object.UID].ClaimOf(r.Pods[i].Object).Containers {
			if container.Policy == placement.StaticBurst && r.Index.Machine().CPUsOfNUMA(container.NUMANodes...).IsSubsetOf(within) {
				sum += container.Request
				if least = 1; len(container.NUMANodes) == 1 {
					alone[container.NUMANodes[0]] = true
				}
			}
		}
	}
	return max(int((sum+999)/1000), least, len(alone))
}

// invalidClaims returns why a pod must not keep the CPUs of its claims, or nil. matches is the result of
// [api.Allocation.Matches], which a resize makes void for as long as the kubelet has not carried it out.
func invalidClaims(s *pods.Pod, a api.Allocation, matches error) error {
	if s.MayResize() {
		return a.Holds(s.Object)
	}
	return cmp.Or(a.Holds(s.Object), matches)
}
