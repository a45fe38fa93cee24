package nodeplan

import (
	"fmt"
	"testing"

	"pinfold.dev/pinfold/core/burst"
	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/ledger"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/busy"
	"pinfold.dev/pinfold/test/need"
)

// largePod returns a pod with one container that has a CPU of its own, and n others, of which the
// last two have a limit.
func largePod(n int, role ledger.Role, phase Phase) Pod {
	p := Pod{ID: "large", Tier: Burstable, Limit: ledger.MilliCPU(n) * 1000, Burst: burst.Policy{Mode: burst.Auto, BurstPercent: 100, QuotaPercent: 300}}
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
