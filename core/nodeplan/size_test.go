package nodeplan

import (
	"fmt"
	"testing"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/qos"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/need"
)

// largePod returns a pod with one container that has a CPU of its own, and n others, of which the
// last two have a limit.
func largePod(n int, role ledger.Role, phase Phase) Pod {
	p := Pod{ID: "large", Tier: qos.Burstable, Limit: ledger.MilliCPU(n) * 1000, Burst: burst.Policy{Mode: burst.Auto, BurstPercent: 100, QuotaPercent: 300}}
	for i := range n {
		p.Containers = append(p.Containers, Container{Name: fmt.Sprint("a-long-name-of-a-container-", i), Role: role, Phase: phase})
	}
	p.Containers[n-1].Limit, p.Containers[n-2].Limit = 100, 100
	p.Containers = append(p.Containers, Container{Name: "own", Phase: Running, Limit: 1000})
	p.Claim.Containers = []ledger.ContainerClaim{{Name: "own", Limit: 1, Policy: placement.Static, CPUs: cpuset.Of(1)}}
	return p
}

// A plan takes time in proportion to the containers of a pod.
func TestLargePods(t *testing.T) {
	need.This(t, "the speed of this machine")
	index := placement.NewIndex(topology.Intel104().MustBuild())
	check := func(name string, edit func(*State), pod func(n int) Pod) {
		t.Run(name, func(t *testing.T) {
			busy.Linear(t, 250, func(n int) func() {
				s := State{Index: index, Pods: []Pod{pod(n)}}
				edit(&s)
				return func() {
					d := Plan(s)
					Steps(nil, d.Assignments(), d.Shared)
				}
			})
		})
	}
	as := func(role ledger.Role, phase Phase) func(int) Pod {
		return func(n int) Pod { return largePod(n, role, phase) }
	}
	bound, unbound := func(*State) {}, func(s *State) { s.BindingOff = "it is off" }
	check("waiting init containers", bound, as(ledger.RoleInit, Waiting))
	check("ended init containers", bound, as(ledger.RoleInit, Ended))
	check("sidecars", bound, as(ledger.RoleSidecar, Running))
	check("main containers", bound, as(ledger.RoleMain, Running))
	check("unbound", unbound, as(ledger.RoleMain, Running))
	check("claims", bound, func(n int) Pod {
		p := largePod(n, ledger.RoleInit, Waiting)
		for i := range n / 2 {
			p.Claim.Containers = append(p.Claim.Containers, ledger.ContainerClaim{Name: p.Containers[i].Name, Role: ledger.RoleInit, Limit: 1,
				Policy: placement.Static, CPUs: cpuset.Of(1)})
		}
		return p
	})
	check("confined init containers", bound, func(n int) Pod {
		p := largePod(n, ledger.RoleInit, Waiting)
		p.Claim.Containers = []ledger.ContainerClaim{{Name: "own", Limit: 1, Policy: placement.StaticBurst, NUMANodes: []topology.NUMAID{0}}}
		return p
	})
}

// Steps take time in proportion to the containers, also where all of them move.
func TestManyMoves(t *testing.T) {
	need.This(t, "the speed of this machine")
	busy.Linear(t, 500, func(n int) func() {
		var from, to []Assignment
		for i := range n {
			ref := Ref{ledger.PodID(fmt.Sprint("pod", i/2)), fmt.Sprint("c", i)}
			from = append(from, Assignment{Ref: ref, CPUs: cpuset.Of(0, 1)})
			to = append(to, Assignment{Ref: ref, CPUs: cpuset.Of(2, 3)})
		}
		return func() { Steps(from, to, cpuset.Set{}) }
	})
}

// burstPods returns pods of four static-burst containers of one CPU each, which request nothing.
func burstPods(n int) []Pod {
	pods := make([]Pod, n)
	for i := range pods {
		p := &pods[i]
		p.ID, p.Tier, p.Claim.Rank = ledger.PodID(fmt.Sprintf("pod-%04d", i)), qos.Burstable, int64(i)
		for _, name := range []string{"a", "b", "c", "d"} {
			p.Containers = append(p.Containers, Container{Name: name, Phase: Running, Limit: 1000})
			p.Claim.Containers = append(p.Claim.Containers, ledger.ContainerClaim{Name: name, Limit: 1, Policy: placement.StaticBurst,
				NUMANodes: []topology.NUMAID{0}})
		}
	}
	return pods
}

// Containers with core sets take time in proportion to their number, beyond what a machine has CPUs for.
func TestManyCoreSets(t *testing.T) {
	need.This(t, "the speed of this machine")
	index := placement.NewIndex(topology.Intel104().MustBuild())
	busy.Linear(t, mostCoreSets/4, func(n int) func() {
		s := State{Index: index, Pods: burstPods(n)}
		return func() { Plan(s) }
	})
}

// Of very many containers, those that request most have core sets. Others use the shared CPUs of their
// NUMA nodes, and stay there.
func TestMostCoreSets(t *testing.T) {
	s := State{Index: placement.NewIndex(topology.Intel104().MustBuild()), Pods: burstPods(mostCoreSets/4 + 2)}
	shared, last := s.Index.Machine().CPUsOfNUMA(0), &s.Pods[len(s.Pods)-1]
	last.Containers[0].Request = 1
	for range 2 {
		d, with := Plan(s), map[Ref]bool{}
		for _, a := range d.Assignments() {
			if a.CPUs != shared {
				with[a.Ref] = true
			}
		}
		if len(with) != mostCoreSets || !with[Ref{last.ID, "a"}] {
			t.Errorf("%d containers have core sets, that which requests most: %t", len(with), with[Ref{last.ID, "a"}])
		}
		s.Previous = d.CoreSets
	}
}
