package main

import (
	"fmt"
	"math/rand/v2"

	"pinfold.dev/pinfold/core/cpuset"
	"pinfold.dev/pinfold/core/topology"
)

// machine is one machine of the comparison.
type machine struct {
	name  string
	shape topology.Shape
	cpus  []int // numbers of CPUs wanted
}

// machines are those of the benchmark of package placement and the one with the
// largest NUMA nodes, of which 60% are 62 CPUs.
func machines() []machine {
	llcs16 := topology.Shape{Packages: 2, NUMAPerPackage: 4, LLCsPerNUMA: 2, CoresPerLLC: 8, ThreadsPerCore: 2}
	return []machine{
		{"256 CPUs, 8 NUMA nodes, 16 LLCs", llcs16, []int{4, 16, 64}},
		{"256 CPUs, 8 NUMA nodes, 32 LLCs", topology.AMD256(), []int{4, 16, 64}},
		{"104 CPUs, 2 NUMA nodes, 2 LLCs", topology.Intel104(), []int{4, 16, 32}},
	}
}

// scatter is how the free CPUs of a machine came to be where they are.
type scatter string

const (
	byThread scatter = "by thread"
	byCore   scatter = "by core"
)

func scatters() []scatter { return []scatter{byThread, byCore} }

// seed makes the first n free sets of a machine the same in every run, and the
// same as in the benchmark of package placement.
const seed = 20261120

// freeSets returns n sets of 60% of a machine's CPUs at random, by single thread
// or by whole core.
func freeSets(m *topology.Machine, how scatter, n int) []cpuset.Set {
	rng := rand.New(rand.NewPCG(seed, 0))
	var units []cpuset.Set
	switch how {
	case byThread:
		for _, c := range m.CPUs {
			units = append(units, cpuset.Of(c.ID))
		}
	case byCore:
		for _, core := range m.Cores() {
			units = append(units, core.CPUs)
		}
	default:
		panic(fmt.Sprintf("peers: free CPUs %q", how))
	}
	sets := make([]cpuset.Set, n)
	for i := range sets {
		rng.Shuffle(len(units), func(a, b int) { units[a], units[b] = units[b], units[a] })
		for _, unit := range units[:len(units)*6/10] {
			sets[i] = sets[i].Union(unit)
		}
	}
	return sets
}
