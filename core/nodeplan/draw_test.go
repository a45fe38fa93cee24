package nodeplan

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/colocation"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/core/topology/topologytest"
)

// drawState draws a node with few CPUs and pods that often conflict.
func drawState(t *rapid.T) State {
	m := topologytest.RandomUpTo(t, 12)
	s := State{Index: placement.NewIndex(m), Config: ledger.Config{MinShared: rapid.IntRange(0, 2).Draw(t, "minShared")}}
	if rapid.IntRange(0, 2).Draw(t, "reserve") == 2 {
		s.Config.ReservedCPUs = topologytest.Subset(t, m.Online(), "reservedCPUs")
	}
	if rapid.IntRange(0, 9).Draw(t, "bindingOff") == 9 {
		s.BindingOff = "the kubelet binds CPUs"
	}
	s.Batch.Use = rapid.SampledFrom([][]colocation.Mechanism{nil, {colocation.Idle}, {colocation.BVT},
		{colocation.CoreScheduling}, {colocation.Idle, colocation.CoreScheduling}}).Draw(t, "batch")
	s.NoKernelBurst = rapid.SampledFrom([]string{"", "", "", "the kernel has none"}).Draw(t, "noKernelBurst")
	s.Tuning.Step = rapid.IntRange(1, 2).Draw(t, "step")
	allBurst := rapid.Bool().Draw(t, "allBurst") // only then do they often fit exactly
	for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
		s.Pods = append(s.Pods, drawPod(t, m, ledger.PodID(fmt.Sprintf("pod%d", i)), allBurst))
	}
	drawUsage(t, &s)
	s.Previous.Sets = map[Ref]cpuset.Set{}
	for _, p := range s.Pods {
		for _, c := range p.Containers {
			if rapid.Bool().Draw(t, "hadSet") {
				s.Previous.Sets[Ref{p.ID, c.Name}] = topologytest.Subset(t, m.Online().Union(m.Offline), "previous")
			}
		}
	}
	return s
}

func drawUsage(t *rapid.T, s *State) {
	s.Usage.Sequence = uint64(rapid.IntRange(0, 1).Draw(t, "sequence"))
	s.Usage.Busy = map[cpuset.CPU]ledger.MilliCPU{}
	for c := range s.Index.Machine().Online().All() {
		s.Usage.Busy[c] = drawMilli(t, "busy")
	}
}

func drawMilli(t *rapid.T, label string) ledger.MilliCPU {
	return rapid.SampledFrom([]ledger.MilliCPU{0, 0, 5, 100, 250, 500, 1000, 2000, ledger.MaxRequest / 10}).Draw(t, label)
}

func drawPod(t *rapid.T, m *topology.Machine, id ledger.PodID, allBurst bool) Pod {
	p := Pod{ID: id, Tier: rapid.SampledFrom(Tiers()).Draw(t, "tier"),
		Class:  rapid.SampledFrom([]Class{"", LS, BE}).Draw(t, "qos"),
		Claim:  ledger.Claim{Rank: int64(rapid.IntRange(0, 3).Draw(t, "rank"))},
		Period: rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 20 * time.Millisecond}).Draw(t, "period"),
		Burst:  drawBurst(t)}
	burst := allBurst || rapid.Bool().Draw(t, "burst")
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		c := Container{Name: fmt.Sprintf("c%d", i), Limit: drawMilli(t, "limit"), Used: drawMilli(t, "used"),
			Role:  rapid.SampledFrom([]ledger.Role{ledger.RoleMain, ledger.RoleMain, ledger.RoleSidecar, ledger.RoleInit}).Draw(t, "role"),
			Phase: rapid.SampledFrom([]Phase{Running, Running, Waiting, Ended}).Draw(t, "phase")}
		if c.Limit == 0 {
			c.Request = drawMilli(t, "request")
		}
		if rapid.IntRange(0, 2).Draw(t, "claims") > 0 {
			claim := drawClaim(t, m, burst)
			claim.Name, claim.Role = c.Name, c.Role
			c.Limit = ledger.MilliCPU(claim.Limit) * 1000
			p.Claim.Containers = append(p.Claim.Containers, claim)
		}
		p.Containers = append(p.Containers, c)
	}
	if rapid.IntRange(0, 3).Draw(t, "ephemeral") == 3 {
		p.Containers = append(p.Containers, Container{Name: "debug", Ephemeral: true, Phase: Running})
	}
	if limits, _ := p.containerLimits(); rapid.IntRange(0, 3).Draw(t, "podLimit") == 3 {
		p.Limit = limits + drawMilli(t, "beyond")
	}
	return p
}

func drawBurst(t *rapid.T) burst.Policy {
	return burst.Policy{
		Mode:         rapid.SampledFrom(burst.Modes()).Draw(t, "mode"),
		BurstPercent: rapid.SampledFrom([]int{0, 1, 33, 100, 101, 10000}).Draw(t, "burstPercent"),
		QuotaPercent: rapid.SampledFrom([]int{0, 100, 101, 333, 10000}).Draw(t, "quotaPercent"),
	}
}

// drawRaises raises quotas regardless of the policies.
func drawRaises(t *rapid.T, s *State) {
	for i := range s.Pods {
		for j := range s.Pods[i].Containers {
			s.Pods[i].Containers[j].Raised = rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 123457 * time.Microsecond, time.Second, time.Hour}).Draw(t, "raised")
		}
	}
}

func drawClaim(t *rapid.T, m *topology.Machine, burst bool) ledger.ContainerClaim {
	if burst {
		nodes := m.NUMANodesOf(m.Online())
		for _, n := range m.NUMANodes { // those without CPUs as well
			nodes = append(nodes, n.ID)
		}
		slices.Sort(nodes)
		nodes = slices.Compact(nodes)
		nodes = slices.DeleteFunc(nodes, func(topology.NUMAID) bool { return rapid.IntRange(0, 2).Draw(t, "leaveOut") == 2 })
		return ledger.ContainerClaim{Policy: placement.StaticBurst, Limit: rapid.IntRange(1, 4).Draw(t, "n"), NUMANodes: nodes}
	}
	claim := ledger.ContainerClaim{Policy: placement.Static}
	from := slices.Collect(m.Online().All())
	if !m.Offline.IsEmpty() && rapid.IntRange(0, 3).Draw(t, "offline") == 3 {
		from = slices.Collect(m.Offline.Union(cpuset.Of(m.Online().First())).All())
	}
	for range rapid.SampledFrom([]int{1, 1, 2, 3, 6}).Draw(t, "cpus") {
		claim.CPUs.Add(rapid.SampledFrom(from).Draw(t, "cpu"))
	}
	if rapid.IntRange(0, 15).Draw(t, "missing") == 15 {
		claim.CPUs.Add(1000)
	}
	claim.Limit = claim.CPUs.Len()
	return claim
}
