package ledger

import (
	"slices"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
)

// reference is a slow and obvious implementation of the books: maps of single CPUs, and rules that
// are checked on all subsets.
type reference struct {
	machine *topology.Machine
	config  Config
	owner   map[cpuset.CPU]PodID
	lost    map[PodID]bool
	loose   MilliCPU // requests that are not confined
	confine []refConfined
}

// refConfined is one confined container.
type refConfined struct {
	nodes   map[topology.NUMAID]bool
	request MilliCPU // of all of them; on one item only
}

func newReference(m *topology.Machine, config Config, claims []Claim) *reference {
	r := &reference{machine: m, config: config, owner: map[cpuset.CPU]PodID{}, lost: map[PodID]bool{}}
	claims = slices.Clone(claims)
	slices.SortFunc(claims, func(a, b Claim) int {
		if a.Rank != b.Rank {
			if a.Rank < b.Rank {
				return -1
			}
			return 1
		}
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	for _, c := range claims {
		r.admit(c)
	}
	return r
}

func (r *reference) admit(c Claim) {
	r.loose += c.SharedRequest
	if !r.valid(c) {
		r.lost[c.ID] = true
		r.loose += refPeak(c.Containers, func(o ContainerClaim) MilliCPU { return o.Request })
		return
	}
	r.loose += refPeak(c.Containers, func(o ContainerClaim) MilliCPU {
		for cpu := range o.CPUs.All() {
			if _, online := r.machine.CPU(cpu); online {
				return 0
			}
		}
		return refStatic(o, o.Request)
	})
	var seen [][]topology.NUMAID
	for _, one := range c.Containers {
		for cpu := range one.CPUs.All() {
			r.owner[cpu] = c.ID
		}
		if one.Policy != placement.StaticBurst {
			continue
		}
		item := refConfined{nodes: map[topology.NUMAID]bool{}}
		where := r.withCPUs(one.NUMANodes)
		for _, n := range where {
			item.nodes[n] = true
		}
		if !slices.ContainsFunc(seen, func(n []topology.NUMAID) bool { return slices.Equal(n, where) }) {
			seen = append(seen, where)
			of := func(amount func(ContainerClaim) MilliCPU) MilliCPU {
				return refPeak(c.Containers, func(o ContainerClaim) MilliCPU {
					if o.Policy == placement.Static || !slices.Equal(r.withCPUs(o.NUMANodes), where) {
						return 0
					}
					return amount(o)
				})
			}
			item.request = of(func(o ContainerClaim) MilliCPU { return o.Request })
		}
		r.confine = append(r.confine, item)
	}
}

// withCPUs returns the nodes with CPUs, sorted.
func (r *reference) withCPUs(nodes []topology.NUMAID) (with []topology.NUMAID) {
	for _, n := range nodes {
		if r.cpusOf(n) > 0 && !slices.Contains(with, n) {
			with = append(with, n)
		}
	}
	slices.Sort(with)
	return with
}

// valid reports whether a claim can be enforced beside those admitted before it.
func (r *reference) valid(c Claim) bool {
	for i, one := range c.Containers {
		switch one.Policy {
		case placement.Static:
			if one.CPUs.IsEmpty() {
				return false
			}
		case placement.StaticBurst:
			cpus := 0
			for _, id := range one.NUMANodes {
				n := r.cpusOf(id)
				if _, known := r.machine.NUMANode(id); !known && n == 0 {
					return false
				}
				cpus += n
			}
			if cpus == 0 {
				return false
			}
		default:
			return false
		}
		for cpu := range one.CPUs.All() {
			_, online := r.machine.CPU(cpu)
			_, held := r.owner[cpu]
			if !online && !r.machine.Offline.Contains(cpu) || held || r.config.ReservedCPUs.Contains(cpu) {
				return false
			}
			for j, other := range c.Containers {
				if i < j && other.CPUs.Contains(cpu) && slices.Contains(refTogether(c.Containers, i), j) {
					return false
				}
			}
		}
	}
	return true
}

// refPhases returns the containers that run at the same time, by phase.
func refPhases(roles []Role) (all [][]int) {
	var sidecars []int
	for i, r := range roles {
		switch r {
		case RoleInit:
			all = append(all, append(slices.Clone(sidecars), i))
		case RoleSidecar:
			sidecars = append(sidecars, i)
		}
	}
	last := slices.Clone(sidecars)
	for i, r := range roles {
		if r == RoleMain {
			last = append(last, i)
		}
	}
	return append(all, last)
}

func rolesOf(containers []ContainerClaim) (roles []Role) {
	for _, c := range containers {
		roles = append(roles, c.Role)
	}
	return roles
}

// refTogether returns the containers that run together with one in some phase.
func refTogether(containers []ContainerClaim, one int) (others []int) {
	for _, phase := range refPhases(rolesOf(containers)) {
		if slices.Contains(phase, one) {
			others = append(others, phase...)
		}
	}
	return others
}

// refPeak returns the largest sum of a need in any phase.
func refPeak(containers []ContainerClaim, need func(ContainerClaim) MilliCPU) (peak MilliCPU) {
	for _, phase := range refPhases(rolesOf(containers)) {
		var sum MilliCPU
		for _, i := range phase {
			sum += need(containers[i])
		}
		peak = max(peak, sum)
	}
	return peak
}

// refStatic returns the amount for a static container, and 0 for others.
func refStatic(c ContainerClaim, amount MilliCPU) MilliCPU {
	if c.Policy != placement.Static {
		return 0
	}
	return amount
}

func (r *reference) cpusOf(id topology.NUMAID) (n int) {
	for _, c := range r.machine.CPUs {
		if c.NUMA == id {
			n++
		}
	}
	return n
}

func (r *reference) sharedSet() (shared cpuset.Set) {
	for _, c := range r.machine.CPUs {
		if _, held := r.owner[c.ID]; !held && !r.isolated(c.ID) {
			shared.Add(c.ID)
		}
	}
	return shared
}

func (r *reference) sharedIn(nodes map[topology.NUMAID]bool) (n int) {
	for _, c := range r.machine.CPUs {
		if _, held := r.owner[c.ID]; !held && nodes[c.NUMA] && !r.isolated(c.ID) {
			n++
		}
	}
	return n
}

// isolated reports whether a CPU is isolated and others are not.
func (r *reference) isolated(cpu cpuset.CPU) bool {
	return r.machine.Isolated.Contains(cpu) && r.machine.Isolated != r.machine.Online()
}

// debts are the amounts by which each rule is violated.
type debts struct {
	requests  MilliCPU // rule 1
	unserved  MilliCPU // rule 2: the most that any set of confined requests lacks
	limits    []int    // rule 3, by confinement of a pod
	minShared int      // rule 4
}

func (r *reference) debts() debts {
	shared := r.sharedSet().Len()
	d := debts{minShared: max(0, r.config.MinShared-shared)}
	sum := r.loose + r.config.Reserved
	for _, c := range r.confine {
		sum += c.request
		d.limits = append(d.limits, max(0, 1-r.sharedIn(c.nodes)))
	}
	d.requests = max(0, sum-MilliCPU(shared)*1000)
	d.unserved = r.unserved()
	return d
}

// unserved tries all sets of requests (Hall's condition).
func (r *reference) unserved() (most MilliCPU) {
	var some []refConfined
	for _, c := range r.confine {
		if c.request > 0 {
			some = append(some, c)
		}
	}
	for set := range 1 << len(some) {
		nodes := map[topology.NUMAID]bool{}
		var sum MilliCPU
		for i, c := range some {
			if set>>i&1 == 1 {
				sum += c.request
				for n := range c.nodes {
					nodes[n] = true
				}
			}
		}
		most = max(most, sum-MilliCPU(r.sharedIn(nodes))*1000)
	}
	return most
}

// worse reports whether some rule is violated by more than before.
func (d debts) worse(before debts) bool {
	for i, n := range d.limits {
		had := 0
		if i < len(before.limits) {
			had = before.limits[i]
		}
		if n > had {
			return true
		}
	}
	return d.requests > before.requests || d.unserved > before.unserved || d.minShared > before.minShared
}

// with returns the reference with one more pod.
func (r *reference) with(request MilliCPU, taken cpuset.Set, confined ...refConfined) *reference {
	after := *r
	after.owner = map[cpuset.CPU]PodID{}
	for cpu, id := range r.owner {
		after.owner[cpu] = id
	}
	for cpu := range taken.All() {
		after.owner[cpu] = "asking"
	}
	after.loose += request
	after.confine = slices.Concat(r.confine, confined)
	return &after
}
