package ledger

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/placement"
	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/busy"
)

// BenchmarkWorstDecision draws machines as strange and large as agents may publish, and books as
// tenants may cause them, and asks each a question of every kind. It reports the largest CPU time of
// each kind, and of the preparation of a machine.
func BenchmarkWorstDecision(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	slowest, index, gaveUp := map[string]*worst{}, &worst{}, 0
	for _, kind := range kinds() {
		slowest[kind] = &worst{}
	}
	for i := 0; b.Loop(); i++ {
		rng := rand.New(rand.NewPCG(uint64(i), 1))
		m := strangeMachine(rng)
		index.measure(func() { placement.NewIndex(m) })
		books := strangeBooks(rng, placement.NewIndex(m))
		for _, kind := range kinds() {
			ask := strangeAsk(rng, m, kind)
			var err error
			if slowest[kind].measure(func() {
				books.digested = &digest{}
				_, err = books.Decide(ask)
			}) {
				slowest[kind].what = fmt.Sprintf("seed %d: %d CPUs, %d NUMA nodes, %d LLCs, %d kinds, %d confinements, %d CPUs for %d containers: %v",
					i, len(m.CPUs), len(m.NUMANodes), len(m.LLCs()), len(m.Kinds), len(books.confinements), ask.CPUs(), len(ask.Containers), err)
			}
			var exclusive *ExclusiveError
			var confinement *ConfinementError
			if errors.As(err, &exclusive) && exclusive.GaveUp || errors.As(err, &confinement) && confinement.GaveUp {
				gaveUp++
			}
		}
	}
	for kind, w := range slowest {
		b.ReportMetric(w.ms(), kind+"-ms")
		b.Logf("the worst of %s: %s", kind, w.what)
	}
	b.ReportMetric(index.ms(), "machine-ms")
	b.ReportMetric(float64(gaveUp)/float64(b.N*len(slowest)), "gave-up/question")
}

// worst is the largest CPU time of a function.
type worst struct {
	time.Duration
	what string
}

func (w worst) ms() float64 { return w.Seconds() * 1000 }

// measure calls a function and reports whether its CPU time is the largest so far. It calls it often
// enough to exclude what does not belong to it: garbage collection, and what a hypervisor takes away.
func (w *worst) measure(f func()) bool {
	least := time.Duration(math.MaxInt64)
	for i := 0; i < 20 && least > w.Duration; i++ {
		begun := busy.CPUTime()
		f()
		least = min(least, busy.CPUTime()-begun)
	}
	if least <= w.Duration {
		return false
	}
	w.Duration = least
	return true
}

func oneOf[T any](rng *rand.Rand, list ...T) T { return list[rng.IntN(len(list))] }

// strangeMachine returns a machine of up to 1,024 CPUs.
func strangeMachine(rng *rand.Rand) *topology.Machine {
	m := &topology.Machine{LLCBytes: map[topology.LLCID]uint64{}}
	nodes, llcs := oneOf(rng, 1, 2, 4, 8, 16, 32, 64, 1+rng.IntN(64)), oneOf(rng, 1, 2, 8, 64, 1024)
	threads, kinds := oneOf(rng, 1, 2, 2, 4, 8), oneOf(rng, 1, 1, 1, 2, 8, 64, 1024)
	clocks, mixed, nested, most := rng.IntN(2) == 0, rng.IntN(4) == 0, rng.IntN(4) > 0, oneOf(rng, 64, 256, 256, 1024)
	for core := 0; len(m.CPUs) < most; core++ {
		c := topology.CPU{Core: topology.CoreID(core), NUMA: topology.NUMAID(rng.IntN(nodes)), LLC: topology.LLCID(rng.IntN(llcs))}
		if nested {
			c.NUMA = topology.NUMAID(len(m.CPUs) * nodes / most)
			c.LLC = topology.LLCID(int(c.NUMA)*1024 + len(m.CPUs)*llcs/most)
		}
		if kind := rng.IntN(kinds); kinds > 1 && clocks {
			c.Kind = topology.ClockKind("", kind+1)
		} else if kinds > 1 {
			c.Kind = topology.Kind(fmt.Sprint("kind", kind))
		}
		for range 1 + oneOf(rng, threads-1, threads-1, rng.IntN(threads))*oneOf(rng, 1, b2i(!mixed)) {
			if len(m.CPUs) < most {
				c.ID = cpuset.CPU(len(m.CPUs))
				m.CPUs = append(m.CPUs, c)
			}
		}
	}
	m.Kinds = topology.KindsOf(m.CPUs)
	for _, llc := range m.LLCs() {
		m.LLCBytes[llc.ID] = 1 << 20
	}
	for _, id := range m.NUMANodesOf(m.Online()) {
		cpus := m.CPUsOfNUMA(id)
		m.NUMANodes = append(m.NUMANodes, topology.NUMANode{ID: id, CPUs: cpus, LocalCPUs: cpus})
	}
	per := oneOf(rng, 1, 2, 4, 8, 64)
	random := rng.IntN(4) == 0
	for i := range m.NUMANodes {
		for j := range m.NUMANodes {
			d := oneOf(rng, 12, 20, 32)
			switch {
			case i == j:
				d = 10
			case !random && i/per == j/per:
				d = 12
			case !random:
				d = 32
			}
			m.NUMANodes[i].Distances = append(m.NUMANodes[i].Distances, d)
		}
	}
	return m
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// strangeBooks returns the books of up to 250 pods: decided ones, and static-burst ones confined to
// any nodes.
func strangeBooks(rng *rand.Rand, ix *placement.Index) *Books {
	m := ix.Machine()
	books := New(ix, Config{Reserved: 100, MinShared: 1})
	small := oneOf(rng, 1, 100, 4000)
	for i := range oneOf(rng, 0, 10, 30, 110, 250) {
		id := PodID(fmt.Sprintf("pod%d", i))
		if rng.IntN(2) == 0 {
			ids := m.NUMANodesOf(m.Online())
			rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
			ids = slices.Clone(ids[:1+rng.IntN(min(len(ids), oneOf(rng, 2, 4, 64)))])
			slices.Sort(ids)
			books.Add(Claim{ID: id, Containers: []ContainerClaim{{Name: "main", Policy: placement.StaticBurst, Limit: 1 + rng.IntN(4),
				Request: MilliCPU(rng.IntN(small)), NUMANodes: ids}}})
			continue
		}
		ask := strangeAsk(rng, m, oneOf(rng, kinds()...))
		if ask.Containers = ask.Containers[:min(len(ask.Containers), 1)]; len(ask.Containers) > 0 {
			ask.Containers[0].CPUs = 1 + ask.Containers[0].CPUs/oneOf(rng, 10, 100)
		}
		if d, err := books.Decide(ask); err == nil {
			books.Add(d.Claim(id, int64(i)))
		}
	}
	return books
}

// kinds are the kinds of questions.
func kinds() []string { return []string{"static", "whole-cores", "static-burst", "claim", "shared"} }

// strangeAsk returns an ask of a kind, sometimes with many containers.
func strangeAsk(rng *rand.Rand, m *topology.Machine, kind string) Ask {
	within, request := oneOf(rng, m.NUMANodes...).CPUs, MilliCPU(rng.IntN(4000))
	ask := Ask{Containers: []ContainerAsk{{Name: "main", CPUs: 1 + rng.IntN(len(m.CPUs)), Request: request}}}
	for i := range oneOf(rng, 0, 0, 2, 20, 255) {
		ask.Containers = append(ask.Containers, ContainerAsk{Name: fmt.Sprint(i), Role: oneOf(rng, RoleMain, RoleSidecar, RoleInit),
			CPUs: 1 + rng.IntN(4), Request: 1})
	}
	switch kind {
	case "whole-cores":
		ask.FullCores = placement.FullCoresRequired
	case "static-burst":
		ask.Policy = placement.StaticBurst
	case "claim":
		ask.Within, ask.Containers[0].CPUs = within, 1+rng.IntN(within.Len())
	case "shared":
		ask = Ask{SharedRequest: request}
	}
	return ask
}
