package nodeplan

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
)

// cpuPlan decides who lives where on a node on which CPUs may be bound.
type cpuPlan struct {
	*State
	books *ledger.Books
	// claims are those in force, by pod: without those that lost.
	claims   map[ledger.PodID]ledger.Claim
	sets     map[Ref]cpuset.Set
	findings []Finding
}

func newCPUPlan(s *State) *cpuPlan {
	h := &cpuPlan{State: s, sets: map[Ref]cpuset.Set{}}
	var claims []ledger.Claim
	for i := range s.Pods {
		claim := s.Pods[i].Claim
		claim.ID = s.Pods[i].ID
		claims = append(claims, claim)
	}
	h.open(claims)
	for _, c := range h.books.Conflicts() {
		h.report(Finding{Kind: Conflict, Pod: c.ID, Conflict: c})
	}
	for _, o := range h.books.Overflow() {
		h.report(Finding{Kind: Overflow, Pod: o.Pod, Overflow: o})
	}
	for _, o := range h.books.Offline() {
		h.report(Finding{Kind: Offline, Pod: o.Pod, Offline: o})
	}
	if h.books.Shared().IsEmpty() && h.needShared() {
		h.shareYoungest(claims)
	}
	for i := range s.Pods {
		h.reportMissing(&s.Pods[i])
	}
	return h
}

func (h *cpuPlan) report(f Finding) { h.findings = append(h.findings, f) }

// open makes the books of the claims.
func (h *cpuPlan) open(claims []ledger.Claim) {
	h.books = ledger.New(h.Index, h.Config, claims...)
	h.claims = map[ledger.PodID]ledger.Claim{}
	for _, c := range claims {
		h.claims[c.ID] = c
	}
	for _, c := range h.books.Conflicts() {
		delete(h.claims, c.ID)
	}
}

// needShared reports whether a container that has not ended has no CPUs of its own.
func (h *cpuPlan) needShared() bool {
	for i := range h.Pods {
		p := &h.Pods[i]
		for j := range p.Containers {
			c := &p.Containers[j]
			if _, home, _ := h.static(p, c); c.Phase != Ended && home != HomeExclusive {
				return true
			}
		}
	}
	return false
}

// shareYoungest makes the CPUs of one static pod that has any online shared ones: of the last by
// rank, which is the youngest, or, where allocations are signed, the one that was decided about
// first. Pods that lost a conflict do not get them: they are as they were.
func (h *cpuPlan) shareYoungest(claims []ledger.Claim) {
	var youngest ledger.Claim
	for _, c := range h.claims {
		static := slices.ContainsFunc(c.Containers, func(one ledger.ContainerClaim) bool { return !h.exclusive(&one).IsEmpty() })
		if static && (youngest.Containers == nil ||
			cmp.Or(cmp.Compare(c.Rank, youngest.Rank), cmp.Compare(c.ID, youngest.ID)) > 0) {
			youngest = c
		}
	}
	for i := range claims {
		if _, wins := h.claims[claims[i].ID]; !wins || claims[i].ID == youngest.ID {
			claims[i].Containers = nil
		}
	}
	h.report(Finding{Kind: NoSharedCPUs, Pod: youngest.ID})
	h.open(claims)
}

// reportMissing reports claims for containers that the pod does not have.
func (h *cpuPlan) reportMissing(p *Pod) {
	for _, c := range p.Claim.Containers {
		if p.container(c.Name) == nil {
			h.report(Finding{Kind: NoSuchContainer, Pod: p.ID, Container: c.Name})
		}
	}
}

// claimOf returns the claim in force of a container, nil when it has none.
func (h *cpuPlan) claimOf(p *Pod, c *Container) *ledger.ContainerClaim {
	claims := h.claims[p.ID].Containers
	for i := range claims {
		if claims[i].Name == c.Name && !c.Ephemeral {
			return &claims[i]
		}
	}
	return nil
}

// exclusive are the CPUs of a claim in force that its container has for itself: none while all of
// them are offline.
func (h *cpuPlan) exclusive(claim *ledger.ContainerClaim) cpuset.Set {
	if claim == nil || claim.Policy != placement.Static {
		return cpuset.Set{}
	}
	return claim.CPUs.Intersection(h.books.Exclusive())
}

// static returns the CPUs of a container that lives on exclusive ones, and whether its quota is
// lifted.
func (h *cpuPlan) static(p *Pod, c *Container) (cpus cpuset.Set, home Home, lifted bool) {
	claim := h.claimOf(p, c)
	own := h.exclusive(claim)
	switch {
	case !own.IsEmpty():
		return own, HomeExclusive, true
	case claim == nil && c.Role == ledger.RoleInit:
		if cpus = h.podsOwn(p, c); !cpus.IsEmpty() {
			return cpus, HomeExclusive, false
		}
	}
	return cpuset.Set{}, "", false
}

// podsOwn are the pod's exclusive CPUs without those of the sidecars that run beside an init
// container.
func (h *cpuPlan) podsOwn(p *Pod, init *Container) cpuset.Set {
	var own, taken cpuset.Set
	before := true
	for i := range p.Containers {
		c := &p.Containers[i]
		before = before && c.Name != init.Name
		cpus := h.exclusive(h.claimOf(p, c))
		own = own.Union(cpus)
		if before && c.Role.RunsWith(ledger.RoleInit) {
			taken = taken.Union(cpus)
		}
	}
	return own.Difference(taken)
}

// home returns a container's CPUs.
func (h *cpuPlan) home(p *Pod, c *Container) (cpus cpuset.Set, home Home, lifted bool) {
	if cpus, home, lifted = h.static(p, c); home != "" {
		return cpus, home, lifted
	}
	if set := h.sets[Ref{p.ID, c.Name}]; !set.IsEmpty() {
		return set, HomeCoreSet, false
	}
	shared := h.books.Shared()
	if c.Role == ledger.RoleInit && h.claimOf(p, c) == nil {
		if near := h.confinement(p).Intersection(shared); !near.IsEmpty() {
			return near, HomeShared, false
		}
	}
	return shared, HomeShared, false
}

// confinement are the CPUs of all NUMA nodes that a pod is confined to.
func (h *cpuPlan) confinement(p *Pod) (cpus cpuset.Set) {
	for _, c := range h.claims[p.ID].Containers {
		for _, id := range c.NUMANodes {
			cpus = cpus.Union(h.Index.Machine().CPUsOfNUMA(id))
		}
	}
	return cpus
}

// pod returns the settings of a pod and its containers.
func (h *cpuPlan) pod(p *Pod) PodSettings {
	podLimit := p.podLimit()
	settings := PodSettings{ID: p.ID, Tier: p.Tier}
	batch := h.batch(p)
	settings.CPUs, settings.Idle = h.books.Shared(), batch
	liftedPod := batch || h.lifts(p)
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Phase == Ended {
			continue
		}
		cpus, home, lifted := h.home(p, c)
		limit := p.effectiveLimit(c)
		if liftedPod && c.Limit == 0 && limit > 0 {
			limit = p.leftOf(c)
		}
		b := h.Kubelet.quota(limit)
		if home == HomeCoreSet { // held to its limit also where the kubelet sets no quota
			b = KubeletConfig{Period: h.Kubelet.Period}.quota(limit)
		}
		b = inPeriod(b, p.Period, limit)
		if lifted || batch {
			b.Quota = bandwidth.Unlimited
		}
		settings.CPUs = settings.CPUs.Union(cpus)
		settings.Containers = append(settings.Containers, ContainerSettings{Name: c.Name, Running: c.Phase == Running,
			Home: home, Settings: Settings{CPUs: cpus, Limits: b}})
	}
	settings.Limits = inPeriod(h.Kubelet.quota(podLimit), p.longestPeriod(settings.Containers), podLimit)
	if liftedPod {
		settings.Quota = bandwidth.Unlimited
	}
	return settings
}

// lifts reports whether quota is lifted from a container of the pod.
func (h *cpuPlan) lifts(p *Pod) bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool {
		_, _, lifted := h.static(p, &c)
		return lifted && c.Phase != Ended
	})
}
