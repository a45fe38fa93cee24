package nodeplan

import (
	"cmp"
	"slices"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/qos"
)

// cpuPlan determines the CPUs of all containers of a node. Invariant: no cpuset is empty, and no
// CPU is exclusive to two pods.
type cpuPlan struct {
	*State
	books *ledger.Books
	// claims are the claims in force, by pod: without those that lost.
	claims map[ledger.PodID]ledger.Claim
	// byContainer are the same by container, and inPods is what follows from them for each pod.
	byContainer map[Ref]*ledger.ContainerClaim
	inPods      map[ledger.PodID]*podCPUs
	sets        map[Ref]cpuset.Set
	findings    []Finding
}

// podCPUs are the CPUs in force of a pod with a claim.
type podCPUs struct {
	exclusive cpuset.Set            // of all its containers
	inits     map[string]cpuset.Set // what sidecars leave of it to each ordinary init container
	confined  cpuset.Set            // of all NUMA nodes that it is confined to
	spare     ledger.MilliCPU       // see Pod.spare
}

func newCPUPlan(s *State) *cpuPlan {
	plan := &cpuPlan{State: s, sets: map[Ref]cpuset.Set{}}
	claims := slices.Clone(s.Unlisted)
	for i := range s.Pods {
		claim := s.Pods[i].Claim
		claim.ID = s.Pods[i].ID
		claims = append(claims, claim)
	}
	plan.openBooks(claims)
	for _, o := range plan.books.Overflow() {
		plan.report(Finding{Kind: Overflow, Overflow: o})
	}
	for _, o := range plan.books.Offline() {
		plan.report(Finding{Kind: Offline, Pod: o.Pod, Offline: o})
	}
	if plan.books.Shared().IsEmpty() && plan.needsShared() {
		plan.shareHighestRank(claims)
	}
	return plan
}

func (plan *cpuPlan) report(f Finding) { plan.findings = append(plan.findings, f) }

// openBooks makes the books of the claims.
func (plan *cpuPlan) openBooks(claims []ledger.Claim) {
	plan.books = ledger.New(plan.Index, plan.Config, claims...)
	plan.claims = map[ledger.PodID]ledger.Claim{}
	for _, c := range claims {
		plan.claims[c.ID] = c
	}
	for _, c := range plan.books.Conflicts() {
		delete(plan.claims, c.ID)
	}
	plan.byContainer, plan.inPods = map[Ref]*ledger.ContainerClaim{}, map[ledger.PodID]*podCPUs{}
	for i := range plan.Pods {
		if p := &plan.Pods[i]; len(plan.claims[p.ID].Containers) > 0 {
			plan.inPods[p.ID] = plan.cpusOf(p, plan.claims[p.ID].Containers)
		}
	}
}

// cpusOf sums up the claims in force of a pod.
func (plan *cpuPlan) cpusOf(p *Pod, claims []ledger.ContainerClaim) *podCPUs {
	in := &podCPUs{inits: map[string]cpuset.Set{}, spare: p.spare()}
	for i := range claims {
		plan.byContainer[Ref{p.ID, claims[i].Name}] = &claims[i]
		in.exclusive = in.exclusive.Union(plan.exclusive(p.Tier, &claims[i]))
		in.confined = in.confined.Union(plan.Index.Machine().CPUsOfNUMA(claims[i].NUMANodes...))
	}
	var earlier ledger.InUse
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Role == ledger.RoleInit {
			in.inits[c.Name] = in.exclusive.Difference(earlier.With(c.Role))
		}
		earlier.Add(c.Role, plan.exclusive(p.Tier, plan.claimOf(p, c)))
	}
	return in
}

// needsShared reports whether a container that has not ended has no exclusive CPUs.
func (plan *cpuPlan) needsShared() bool {
	for i := range plan.Pods {
		p := &plan.Pods[i]
		for j := range p.Containers {
			c := &p.Containers[j]
			if _, home, _ := plan.static(p, c); c.Phase != Ended && home != HomeExclusive {
				return true
			}
		}
	}
	return false
}

// shareHighestRank makes the CPUs of one static pod with online CPUs shared, on which it stays:
// those of the pod with the highest rank, which would lose to every other pod. Pods that lost a
// conflict still lose.
func (plan *cpuPlan) shareHighestRank(claims []ledger.Claim) {
	var last ledger.Claim
	for _, c := range plan.claims {
		static := slices.ContainsFunc(c.Containers, func(one ledger.ContainerClaim) bool {
			return one.Policy == placement.Static && one.CPUs.Intersects(plan.books.Exclusive())
		})
		if static && (last.Containers == nil ||
			cmp.Or(cmp.Compare(c.Rank, last.Rank), cmp.Compare(c.ID, last.ID)) > 0) {
			last = c
		}
	}
	for i := range claims {
		if _, wins := plan.claims[claims[i].ID]; !wins || claims[i].ID == last.ID {
			claims[i].Containers = nil
		}
	}
	plan.report(Finding{Kind: NoSharedCPUs, Pod: last.ID})
	plan.openBooks(claims)
}

// claimOf returns the claim in force of a container, or nil.
func (plan *cpuPlan) claimOf(p *Pod, c *Container) *ledger.ContainerClaim {
	if c.Ephemeral {
		return nil
	}
	return plan.byContainer[Ref{p.ID, c.Name}]
}

// exclusive returns the online exclusive CPUs of a claim in force that the pod's tier may use.
func (plan *cpuPlan) exclusive(tier qos.Tier, claim *ledger.ContainerClaim) cpuset.Set {
	if claim == nil || claim.Policy != placement.Static {
		return cpuset.Set{}
	}
	cpus := claim.CPUs.Intersection(plan.books.Exclusive())
	if allowed, narrow := plan.Allowed[tier]; narrow {
		return cpus.Intersection(allowed)
	}
	return cpus
}

// static returns the CPUs of a container that runs on exclusive CPUs, and whether its quota is
// removed. home is "" for other containers.
func (plan *cpuPlan) static(p *Pod, c *Container) (cpus cpuset.Set, home Home, lifted bool) {
	claim := plan.claimOf(p, c)
	own := plan.exclusive(p.Tier, claim)
	switch {
	case !own.IsEmpty():
		return own, HomeExclusive, true
	case claim == nil:
		if cpus = plan.available(p, c); !cpus.IsEmpty() {
			return cpus, HomeExclusive, false
		}
	}
	return cpuset.Set{}, "", false
}

// available returns the exclusive CPUs of a pod that a container without CPUs of its own runs on.
// An init container has those that no sidecar has at the same time. Containers that a quota of
// their own cannot keep within the pod's limit have all of them: ephemeral ones, and those for
// which the pod-level limit has no room.
func (plan *cpuPlan) available(p *Pod, to *Container) cpuset.Set {
	in := plan.inPods[p.ID]
	if in == nil {
		return cpuset.Set{}
	}
	if free := in.inits[to.Name]; to.Role == ledger.RoleInit && !free.IsEmpty() {
		return free
	}
	if to.Ephemeral || to.Limit == 0 && p.Limit > 0 && (to.Role == ledger.RoleInit || to.remainder(in.spare) < minRemainder) {
		return in.exclusive
	}
	return cpuset.Set{}
}

// home returns the CPUs of a container, and whether its quota is removed.
func (plan *cpuPlan) home(p *Pod, c *Container) (cpus cpuset.Set, home Home, lifted bool) {
	if cpus, home, lifted = plan.static(p, c); home != "" {
		return cpus, home, lifted
	}
	if set := plan.sets[Ref{p.ID, c.Name}]; !set.IsEmpty() {
		return set, HomeCoreSet, false
	}
	shared := plan.books.Shared()
	if in := plan.inPods[p.ID]; in != nil && c.Role == ledger.RoleInit && plan.claimOf(p, c) == nil {
		if near := in.confined.Intersection(shared); !near.IsEmpty() {
			return near, HomeShared, false
		}
	}
	return shared, HomeShared, false
}

// pod returns the settings of a pod and its containers.
func (plan *cpuPlan) pod(p *Pod) PodSettings {
	podLimit := p.podLimit()
	settings := PodSettings{ID: p.ID, Tier: p.Tier}
	settings.CPUs = plan.books.Shared()
	liftedPod, period, spare := plan.lifts(p), p.Period, p.spare()
	if liftedPod { // each start of a container fills a bucket that the pod's group does not bound
		period = min(period, plan.Kubelet.PeriodOrDefault())
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		if c.Phase == Ended {
			continue
		}
		cpus, home, lifted := plan.home(p, c)
		limit := p.effectiveLimit(c)
		if liftedPod && c.Limit == 0 && limit > 0 && home != HomeExclusive {
			limit = c.remainder(spare)
		}
		b := plan.Kubelet.quota(limit)
		if home == HomeCoreSet { // has a quota even if the kubelet sets none
			b = KubeletConfig{Period: plan.Kubelet.Period}.quota(limit)
		}
		b = inPeriod(b, period, limit)
		if lifted {
			b.Quota = bandwidth.Unlimited
		}
		settings.CPUs = settings.CPUs.Union(cpus)
		settings.Containers = append(settings.Containers, ContainerSettings{Name: c.Name, Running: c.Phase == Running,
			Home: home, Sole: lifted && c.Phase == Running, Settings: Settings{CPUs: cpus, Limits: b}})
	}
	settings.findSole()
	settings.Limits = inPeriod(plan.Kubelet.quota(podLimit), p.longestPeriod(settings.Containers), podLimit)
	if liftedPod {
		settings.Quota = bandwidth.Unlimited
	}
	return settings
}

// findSole clears Sole of containers that have CPUs in common with another one. An init container
// and a main one may seem to run at the same time, because the end of the former is known late.
func (p *PodSettings) findSole() {
	var once, twice cpuset.Set
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Running {
			twice = twice.Union(once.Intersection(c.CPUs))
			once = once.Union(c.CPUs)
		}
	}
	for i := range p.Containers {
		c := &p.Containers[i]
		c.Sole = c.Sole && !c.CPUs.Intersects(twice)
	}
}

// lifts reports whether the quota of a container of the pod is removed. The pod's is removed then,
// too, or the pod would throttle the container. Invariant: a quota that the kubelet would set is
// missing only where everything that it would bound has exclusive CPUs, or a quota of its own that
// keeps the pod's limit.
func (plan *cpuPlan) lifts(p *Pod) bool {
	return slices.ContainsFunc(p.Containers, func(c Container) bool {
		_, _, lifted := plan.static(p, &c)
		return lifted && c.Phase != Ended
	})
}
