package nodeplan

import (
	"slices"

	"pinfold.dev/pinfold/core/bandwidth"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/qos"
)

// Settings are the settings of one cgroup.
type Settings struct {
	// CPUs is the cpuset of a container or pod. If it is empty, the cpuset is not changed. A pod
	// has the shared CPUs and those of its containers, so that anything else created in it does not
	// run on exclusive CPUs of other pods. Tiers have none: theirs are the administrator's.
	// cpuset.mems is not changed.
	CPUs cpuset.Set
	// Limits are quota, period and kernel burst. Without a quota the period has no effect and need
	// not be written.
	bandwidth.Limits
	// Idle is cpu.idle; of pods only.
	Idle bool
	// BVT is cpu.bvt_warp_ns, of pods and their containers.
	BVT int
}

// Home is the kind of CPUs that a container runs on.
type Home string

// The homes.
const (
	HomeShared    Home = "shared"
	HomeExclusive Home = "exclusive"
	HomeCoreSet   Home = "core set"
	// HomeUnbound is the home of containers whose cpuset is not changed.
	HomeUnbound Home = "unbound"
)

// ContainerSettings are the settings of one container. Waiting containers get theirs when they are
// created.
type ContainerSettings struct {
	Name    string
	Running bool
	Home    Home
	// Sole is set if the container runs on exclusive CPUs of its own, of which no other running
	// container has any. Its cgroup can then be a cpuset partition.
	Sole bool
	Settings
	Raising
}

// PodSettings are the settings of a pod's own cgroup and of its containers that have not ended, in
// the pod's order.
type PodSettings struct {
	ID   ledger.PodID
	Tier qos.Tier
	Settings
	Raising
	// Separate is whether the threads of the pod have the core-scheduling cookie of batch pods.
	Separate   bool
	Containers []ContainerSettings
}

// TierSettings are the settings of a tier's cgroup.
type TierSettings struct {
	Tier qos.Tier
	Settings
}

// Desired is the planned settings of a node's cgroups.
type Desired struct {
	Tiers []TierSettings // in the order of Tiers()
	Pods  []PodSettings  // in the order of State.Pods
	// Exclusive and Shared are disjoint and together contain all online CPUs.
	Exclusive, Shared cpuset.Set
	// CoreSets must be passed to the next Plan as State.Previous.
	CoreSets CoreSets
	Findings []Finding
}

// Tier returns the settings of a tier.
func (d *Desired) Tier(t qos.Tier) *TierSettings { return &d.Tiers[slices.Index(qos.Tiers(), t)] }

// Binds reports whether a container has other CPUs than all containers would have without Pinfold.
// Otherwise no cpuset needs to be set.
func (d *Desired) Binds() bool {
	return !d.Exclusive.IsEmpty() || slices.ContainsFunc(d.Pods, func(p PodSettings) bool {
		return slices.ContainsFunc(p.Containers, func(c ContainerSettings) bool { return !c.CPUs.IsEmpty() && c.CPUs != d.Shared })
	})
}

// Plan returns the settings for a node. Pods must have distinct ids, and the containers of a pod
// distinct names.
//
// If the quota of a pod with a pod-level limit is removed, the containers without a limit divide
// what the other containers' limits leave of the pod's: each gets its request, and an even part of
// the rest. If that is too little, they run on the pod's exclusive CPUs.
func Plan(s State) Desired {
	plan := planCPUs
	if s.BindingOff != "" {
		plan = planUnbound
	}
	d := plan(&s)
	s.prioritize(&d)
	s.boundBatch(&d)
	s.setBursts(&d)
	return d
}

// planCPUs plans CPUs, and what follows from them for the quotas.
func planCPUs(s *State) Desired {
	cpus := newCPUPlan(s)
	d := Desired{Tiers: tiers(), Exclusive: cpus.books.Exclusive(), Shared: cpus.books.Shared()}
	d.CoreSets = cpus.planCoreSets()
	for i := range s.Pods {
		d.Pods = append(d.Pods, cpus.pod(&s.Pods[i]))
	}
	d.Findings = cpus.findings
	return d
}

// Kubelet returns the settings that the kubelet, with the CPU manager policy none, would set for
// the same pods.
func Kubelet(s State) Desired {
	online := s.Index.Machine().Online()
	d := Desired{Tiers: tiers(), Shared: online}
	for i := range s.Pods {
		p := &s.Pods[i]
		settings := PodSettings{ID: p.ID, Tier: p.Tier,
			Settings: Settings{CPUs: online, Limits: s.Kubelet.quota(p.podLimit())}}
		settings.Raising = unraised(settings.Limits)
		for j := range p.Containers {
			if c := &p.Containers[j]; c.Phase != Ended {
				l := s.Kubelet.quota(p.effectiveLimit(c))
				settings.Containers = append(settings.Containers, ContainerSettings{Name: c.Name, Running: c.Phase == Running,
					Home: HomeShared, Settings: Settings{CPUs: online, Limits: l}, Raising: unraised(l)})
			}
		}
		d.Pods = append(d.Pods, settings)
	}
	return d
}

// planUnbound plans a node on which CPUs must not be bound.
func planUnbound(s *State) Desired {
	d := Kubelet(*s)
	d.CoreSets = CoreSets{Sequence: s.Previous.Sequence}
	d.Findings = []Finding{{Kind: BindingOff, Reason: s.BindingOff}}
	for i := range d.Pods {
		p, settings := &s.Pods[i], &d.Pods[i]
		settings.CPUs = cpuset.Set{}
		for j, container := range p.present() {
			c := &settings.Containers[j]
			c.CPUs, c.Home = cpuset.Set{}, HomeUnbound
			c.Limits = inPeriod(c.Limits, p.Period, p.effectiveLimit(container))
		}
		settings.Limits = inPeriod(settings.Limits, p.longestPeriod(settings.Containers), p.podLimit())
		if len(p.Claim.Containers) > 0 {
			d.Findings = append(d.Findings, Finding{Kind: NotBound, Pod: p.ID, Reason: s.BindingOff})
		}
	}
	return d
}

// tiers returns the settings of the tiers: the kernel's defaults, as the kubelet sets no bandwidth
// on them.
func tiers() []TierSettings {
	var all []TierSettings
	for _, t := range qos.Tiers() {
		all = append(all, TierSettings{t, Settings{Limits: bandwidth.Limits{Quota: bandwidth.Unlimited, Period: defaultPeriod}}})
	}
	return all
}

// prioritize sets what puts batch pods behind all others. In other tiers than BestEffort, cpu.idle
// puts a pod behind those of its tier only. The kernel passes BVT of a pod on to its containers,
// but does not take it back.
func (s *State) prioritize(d *Desired) {
	idle, bvt := s.Batch.Uses(colocation.Idle), s.Batch.Uses(colocation.BVT)
	for i := range d.Pods {
		p, settings := &s.Pods[i], &d.Pods[i]
		if p.Class == qos.BE && p.Tier != qos.BestEffort && !p.ended() && (idle || bvt || s.BatchBudget > 0) {
			d.Findings = append(d.Findings, Finding{Kind: NotBestEffort, Pod: p.ID, Reason: string(p.Tier)})
		}
		settings.Idle = idle && p.Class == qos.BE
		settings.Separate = s.Batch.Uses(colocation.CoreScheduling) && p.Class == qos.BE
		if !bvt {
			continue
		}
		settings.BVT = map[qos.Class]int{qos.LS: colocation.OnlineIdentity, qos.BE: colocation.BatchIdentity}[p.Class]
		for j := range settings.Containers {
			settings.Containers[j].BVT = settings.BVT
		}
	}
}

// boundBatch sets the quota of the tier of batch pods. A quota would throttle the other pods of the
// tier as well, so there must be none. Batch pods of other tiers are not bounded.
func (s *State) boundBatch(d *Desired) {
	if s.BatchBudget == 0 {
		return
	}
	batch := 0
	var other *Pod
	for i := range s.Pods {
		switch p := &s.Pods[i]; {
		case p.ended():
		case p.Tier == qos.BestEffort && p.Class == qos.BE:
			batch++
		case p.Tier == qos.BestEffort:
			other = p
		}
	}
	if batch == 0 {
		return
	}
	if other != nil {
		d.Findings = append(d.Findings, Finding{Kind: BatchUnbounded, Pod: other.ID})
		return
	}
	d.Tier(qos.BestEffort).Limits = KubeletConfig{}.quota(s.BatchBudget)
}

// ended reports whether all containers have ended.
func (p *Pod) ended() bool {
	return !slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Phase != Ended })
}

// present returns the containers that have not ended, in the order of PodSettings.Containers.
func (p *Pod) present() []*Container {
	all := make([]*Container, 0, len(p.Containers))
	for i := range p.Containers {
		if c := &p.Containers[i]; c.Phase != Ended {
			all = append(all, c)
		}
	}
	return all
}
