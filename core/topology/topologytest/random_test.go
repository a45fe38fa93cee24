package topologytest

import (
	"testing"

	"pgregory.net/rapid"

	"pinfold.dev/pinfold/core/topology"
	"pinfold.dev/pinfold/test/must"
)

// features are the irregularities that the package comment lists.
func features(m *topology.Machine) map[string]bool {
	has := map[string]bool{
		"offline":      !m.Offline.IsEmpty(),
		"isolated":     !m.Isolated.IsEmpty(),
		"kinds":        len(m.Kinds) > 1,
		"slow first":   m.Kinds[0] == topology.KindEfficiency && len(m.Kinds) > 1,
		"most CPUs":    len(m.CPUs) == MaxCPUs,
		"one CPU":      len(m.CPUs) == 1,
		"sparse CPUs":  int(m.CPUs[len(m.CPUs)-1].ID) >= len(m.CPUs)+m.Offline.Len(),
		"several dies": len(m.Dies()) > 1,
	}
	for _, feature := range []string{"sparse nodes", "memory only", "memory only, local to some", "asymmetric",
		"CPU without NUMA", "LLC spans nodes", "node spans packages"} {
		has[feature] = false
	}
	for i, n := range m.NUMANodes {
		has["sparse nodes"] = has["sparse nodes"] || int(n.ID) != i
		has["memory only"] = has["memory only"] || n.CPUs.IsEmpty()
		has["memory only, local to some"] = has["memory only, local to some"] || n.CPUs.IsEmpty() && !n.LocalCPUs.IsEmpty()
		for j, d := range n.Distances {
			has["asymmetric"] = has["asymmetric"] || d != m.NUMANodes[j].Distances[i]
		}
	}
	threads := map[int]bool{}
	for _, core := range m.Cores() {
		threads[core.CPUs.Len()] = true
	}
	has["unequal cores"] = len(threads) > 1
	has["SMT8"] = threads[8]
	llcNode := map[topology.LLCID]topology.NUMAID{}
	nodePackage := map[topology.NUMAID]topology.PackageID{}
	for _, c := range m.CPUs {
		has["CPU without NUMA"] = has["CPU without NUMA"] || c.NUMA == topology.NoNUMA
		if node, ok := llcNode[c.LLC]; ok && node != c.NUMA {
			has["LLC spans nodes"] = true
		}
		if pkg, ok := nodePackage[c.NUMA]; ok && pkg != c.Package {
			has["node spans packages"] = true
		}
		llcNode[c.LLC], nodePackage[c.NUMA] = c.NUMA, c.Package
	}
	return has
}

func TestRandomDrawsEveryFeature(t *testing.T) {
	generator := rapid.Custom(Random)
	seen := map[string]int{}
	const draws = 600
	for seed := range draws {
		for feature, is := range features(generator.Example(seed)) {
			if is {
				seen[feature]++
			} else {
				seen[feature] += 0
			}
		}
	}
	for feature, times := range seen {
		if times < draws/100 {
			t.Errorf("%q: in %d of %d machines, want at least 1 in 100", feature, times, draws)
		}
	}
	if testing.Verbose() {
		t.Log(seen)
	}
}

func TestRandomShapeBuilds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := must.Get(RandomShape(t, 100).Build())(t)
		if len(m.CPUs) > 100 {
			t.Fatalf("%d CPUs, want at most 100", len(m.CPUs))
		}
	})
}
